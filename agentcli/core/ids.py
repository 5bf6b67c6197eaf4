"""Sources of ids and time, so that tests and replays can control both.

Sleeping is not here: code uses `asyncio.sleep`, and tests skip waiting with a virtual-time event loop. Durations come
from `Clock.monotonic`, never from the wall clock, which may jump.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol


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

    def new(self) -> str:
        text = os.urandom(16).hex()
        variant = "89ab"[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


class SystemClock:
    """The real clock. Includes the time that the machine sleeps, because a prompt cache ages during it."""

    def __init__(self) -> None:
        # Linux has a separate clock for that; the usual one of macOS includes it.
        self._clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        try:
            time.clock_gettime(self._clock)
        except OSError:
            self._clock = time.CLOCK_MONOTONIC

    def monotonic(self) -> float:
        return time.clock_gettime(self._clock)

    def timestamp(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(earlier: str, later: str) -> float | None:
    """Seconds between two timestamps; None if one is invalid. Never negative: the wall clock may have been set back."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return None
    return max(0.0, passed.total_seconds())


class SequentialIds:
    """Predictable ids: equal runs give equal logs. Only tests use them so far."""

    def __init__(self, start: int = 1) -> None:
        self._next = start

    def new(self) -> str:
        value = self._next
        self._next += 1
        return f"00000000-0000-4000-8000-{value:012x}"
