"""Sources of ids and time, so that tests and replays can control both.

Sleeping is not here: code uses `asyncio.sleep`, and tests skip waiting with a virtual-time event loop. Durations come
from `Clock.monotonic`, never from the wall clock, which may jump.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import ClassVar, Protocol

_IDS_AT_ONCE = 32


class Ids(Protocol):
    def new(self) -> str:
        """A new globally unique id, in the form of a UUID."""
        ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never decrease; only differences are meaningful."""
        ...

    def timestamp(self) -> str:
        """The wall clock in ISO 8601, UTC, with milliseconds."""
        ...


class RandomIds:
    """Version 4 UUIDs. Written out because importing `uuid` is slower than this class."""

    _unused: ClassVar[list[str]] = []
    """Random hexadecimal digits for the next ids: a system call for each id would double its cost."""

    def new(self) -> str:
        try:
            text = self._unused.pop()
        except IndexError:
            numbers = os.urandom(16 * _IDS_AT_ONCE).hex()
            text, *more = (numbers[place : place + 32] for place in range(0, len(numbers), 32))
            self._unused.extend(more)
        variant = "89ab"[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


# A forked process must not use the numbers of its parent.
os.register_at_fork(after_in_child=RandomIds._unused.clear)


class SystemClock:
    """The real clock. Includes the time that the machine sleeps, because a prompt cache ages during it."""

    def __init__(self) -> None:
        # Linux has a separate clock for that; the usual one of macOS includes it.
        self._clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        try:
            time.clock_gettime(self._clock)
        except OSError:
            self._clock = time.CLOCK_MONOTONIC
        self._second = (0, "")
        """The second of the last timestamp, since the epoch and as text."""

    def monotonic(self) -> float:
        return time.clock_gettime(self._clock)

    def timestamp(self) -> str:
        milliseconds = time.time_ns() // 1_000_000
        second = milliseconds // 1_000
        known = self._second  # another thread may replace it at any time
        if known[0] != second:
            known = (second, datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds")[:19])
            self._second = known
        return f"{known[1]}.{milliseconds % 1_000:03d}Z"


def seconds_between(earlier: str, later: str) -> float | None:
    """Seconds between two timestamps; None if one is invalid. Never negative: the wall clock may have been set back."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return None
    return max(0.0, passed.total_seconds())


class SequentialIds:
    """Predictable ids for tests, the demo and replay: equal runs give equal logs."""

    def __init__(self, start: int = 1) -> None:
        self._next = start

    def new(self) -> str:
        value = self._next
        self._next += 1
        return f"00000000-0000-4000-8000-{value:012x}"
