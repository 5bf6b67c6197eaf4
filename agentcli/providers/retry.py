"""When to try again, and how long to wait first: pure computations, no sleeping here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from agentcli.core.frozen import frozen


@frozen
class RetryPolicy:
    max_retries: int = 10
    max_stalls: int = 3
    """Stalled streams are retried less often: each has already cost `Patience.idle_timeout`."""
    base_delay: float = 0.5
    max_delay: float = 32.0
    jitter: float = 0.25
    max_retry_after: float = 60.0
    """A server that asks for more is not waited for: the request fails and says how long it asked for."""
    overloads_before_fallback: int = 3
    overload_rest: float = 300.0
    """Seconds for which an overloaded model is left alone once a fallback has taken over."""
    breaks_before_fallback: int = 1
    """A reply that breaks off in the middle is asked for again on the fallback model, if there is one (SPEC 2.4)."""

    def backoff(self, retry: int, chance: float) -> float:
        """Seconds before retry number `retry` (from 1), with `chance` in [0, 1) spreading it to either side."""
        delay = min(self.base_delay * 2.0 ** min(retry - 1, 30), self.max_delay)
        return delay * (1 + self.jitter * (2 * chance - 1))

    def wait(self, retry: int, retry_after: float | None, chance: float) -> float | None:
        """Seconds to wait before retry number `retry`; None when the server asks for longer than we wait.

        What the server asks for is never undercut: the spread goes upward only, and by at most a second.
        """
        if retry_after is None or retry_after <= 0:
            return self.backoff(retry, chance)
        if retry_after > self.max_retry_after:
            return None
        return retry_after + chance * min(1.0, 0.1 * retry_after)


@frozen
class Patience:
    """How long a reply may say nothing. Pings count as something for the first two, not for the last."""

    quiet_after: float = 30.0
    idle_timeout: float = 90.0
    content_deadline: float = 600.0


def retry_after_seconds(headers: Mapping[str, str], now: str) -> float | None:
    """What the server asks for: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date.

    `headers` has lower-case names. A date is compared with the server's own `date` where there is one, so that
    a wrong clock on either side does no harm; `now` (ISO 8601) is for servers that send none.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return max(seconds, 0.0)
    due = _http_date(value)
    if due is None:
        return None
    reference = _http_date(headers.get("date", "")) or datetime.fromisoformat(now)
    return max((due - reference).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < 1e9 else None


def _http_date(text: str) -> datetime | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # 10 ms: only for the rare server that sends a date

    try:
        value = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
