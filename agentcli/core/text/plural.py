"""Format numbers with their nouns."""

from __future__ import annotations


def plural(number: int, singular: str, many: str = "") -> str:
    """The noun that fits the number: `plural(1, "line")` is "line", `plural(0, "line")` is "lines"."""
    return singular if number == 1 else many or f"{singular}s"


def counted(number: int, singular: str, many: str = "") -> str:
    """The number with its noun: `counted(1, "line")` is "1 line", `counted(1_200, "line")` is "1,200 lines"."""
    return f"{number:,} {plural(number, singular, many)}"
