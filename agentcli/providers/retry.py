"""Decide when to retry and how long to wait: pure functions without sleeping."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from agentcli.core.frozen import frozen


@frozen
class RetryPolicy:
    max_retries: int = 10
    max_stalls: int = 3
    """Maximum retries of stalled streams: fewer, because each has already cost `Timeouts.idle_timeout`."""
    base_delay: float = 0.5
    max_delay: float = 32.0
    jitter: float = 0.25
    max_retry_after: float = 60.0
    """Seconds. If the server asks for a longer wait, the request fails and reports it."""
    overloads_before_fallback: int = 3
    overload_cooldown: float = 300.0
    """Seconds during which an overloaded model is skipped after a fallback has taken over."""
    breaks_before_fallback: int = 1
    """Number of cut-off replies after which the fallback model is used, if there is one."""

    def backoff(self, retry: int, chance: float) -> float:
        """Seconds before retry number `retry` (from 1); `chance` in [0, 1) adds jitter in both directions."""
        delay = min(self.base_delay * 2.0 ** min(retry - 1, 30), self.max_delay)
        return delay * (1 + self.jitter * (2 * chance - 1))

    def wait(self, retry: int, retry_after: float | None, chance: float) -> float | None:
        """Seconds before retry number `retry`, never less than the server asks for; None if it asks for too much."""
        if retry_after is None or retry_after <= 0:
            return self.backoff(retry, chance)
        if retry_after > self.max_retry_after:
            return None
        return retry_after + chance * min(1.0, 0.1 * retry_after)


@frozen
class Timeouts:
    """Timeouts for a silent server, in seconds. Pings reset the first two, not the last."""

    quiet_after: float = 30.0
    idle_timeout: float = 90.0
    content_deadline: float = 600.0


def retry_after_seconds(headers: Mapping[str, str], now: str) -> float | None:
    """The requested wait: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date.

    `headers` has lower-case names. A date is compared with the server's `date` header if there is one, so that a wrong
    clock does not matter; `now` (ISO 8601) is for servers without it.
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
    from email.utils import parsedate_to_datetime  # imported here because it takes 10 ms and few servers send a date

    try:
        value = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
