"""Format money, tokens, durations, sizes, shares and counted nouns: the same figure reads the same everywhere."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def money(usd: float) -> str:
    """`$12.50`, `$0.40`, `$0.042`, `$0.0007`: the significant decimals, at least two."""
    if 0 < usd < 0.000_1:
        return "<$0.0001"
    decimals = 2 if usd >= 0.9995 or usd <= 0 else 3 if usd >= 0.009_95 else 4
    whole, _point, cents = f"{usd:,.{decimals}f}".partition(".")
    return f"${whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def about_money(usd: float, sign: str = "about ") -> str:
    """`about $0.03`; `<$0.0001` gets no sign."""
    return money(usd) if 0 < usd < 0.000_1 else f"{sign}{money(usd)}"


def token_count(count: int) -> str:
    """`950`, `1.2k`, `123k`, `1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        # Round up to the next unit rather than to 1000 of this one.
        if count >= size * 0.9995:
            return _one_decimal(count / size, 99.95) + unit
    return str(max(0, count))


def byte_size(count: int) -> str:
    """`950 B`, `1.5 KB`, `12 MB`, of 1,024 bytes to a KB."""
    for factor, unit in ((1024**3, "GB"), (1024**2, "MB"), (1024, "KB")):
        if count >= factor * 0.9995:
            return f"{_one_decimal(count / factor, 9.95)} {unit}"
    return f"{max(0, count)} B"


def _one_decimal(value: float, below: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < below else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """`3.2 s`, `12 s`, `1 min 40 s`, `2 h 5 min`."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 9.95 else format_elapsed(round(seconds))


def format_elapsed(seconds: float) -> str:
    """A duration in whole seconds, for a running clock: `3 s`, `1 min 40 s`, `5 min`, `2 h 5 min`."""
    whole = max(0, int(seconds))
    larger, unit, smaller, rest = whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min"
    if whole < _HOUR:
        larger, unit, smaller, rest = whole // _MINUTE, "min", whole % _MINUTE, "s"
    parts = [f"{larger} {unit}"] if larger else []
    return " ".join([*parts, f"{smaller} {rest}"] if smaller or not parts else parts)


def ago(seconds: float) -> str:
    """Elapsed time in the largest unit that fits: `3 h ago`."""
    units = ((_DAY * 365, "y"), (_DAY * 30, "mo"), (_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))
    return next((f"{int(seconds // size)} {unit} ago" for size, unit in units if seconds >= size), "just now")


def local_time(timestamp: str) -> str:
    """`2026-11-19 10:02` in the user's time zone; "" for an invalid timestamp."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return ""


def percent(part: float, whole: float = 1.0, decimals: int = 0) -> str:
    """`12%`, `<1%`; `–` if there is no whole. `decimals`: for shares below 10%: `0.3%`, `<0.1%`."""
    if whole <= 0:
        return "–"
    share, least = max(0.0, 100 * part / whole), 10**-decimals
    if 0 < share < least:
        return f"<{least:g}%"
    if 0 < share < 9.95:
        return f"{share:.{decimals}f}%"
    # Less than everything never shows as 100%.
    return f"{min(share, 99) if share < 100 else share:.0f}%"


def plural(number: int, singular: str, many: str = "") -> str:
    """The noun that fits the number: `plural(1, "line")` is "line", `plural(0, "line")` is "lines"."""
    return singular if number == 1 else many or f"{singular}s"


def counted(number: int, singular: str, many: str = "") -> str:
    """The number with its noun: `counted(1, "line")` is "1 line", `counted(1_200, "line")` is "1,200 lines"."""
    return f"{number:,} {plural(number, singular, many)}"


def change_count(files: int, added: int, removed: int) -> str:
    """Changed files with added and removed lines: `3 files +40 −2`; "" if no file was changed."""
    return f"{counted(files, 'file')} +{added} −{removed}" if files else ""
