"""Schedules repaints: soon after the first change, and at most 30 times a second.

Painting shares its thread with the agent loop. Between the end of a reply and the next request a frame would only delay
that request, so frames are put off there, for a bounded time. No Textual here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FRAME_SECONDS = 1 / 30
SETTLE_SECONDS = 0.004
"""Minimum delay from a change to its frame: events come in groups, and a request is sent just after its event."""
MAX_SECONDS = 0.05
"""Maximum delay from a change to its frame, even while a request is being prepared."""


class FrameClock:
    """Calls `paint` once for all changes since the last frame."""

    def __init__(self, paint: Callable[[], None]) -> None:
        self._paint = paint
        self._changed_at: float | None = None
        """Time of the first unpainted change; None if there is none."""
        self._painted_at = -FRAME_SECONDS
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        """Paint a change with the next frame."""
        if self._changed_at is None:
            self._changed_at = asyncio.get_running_loop().time()
            self._schedule(self._changed_at)

    def hold(self) -> None:
        """Delay the next frame until `release`, but no longer than `MAX_SECONDS` after the change."""
        if not self._held:
            self._held = True
            self._schedule_again()

    def release(self) -> None:
        if self._held:
            self._held = False
            self._schedule_again()

    def stop(self) -> None:
        """Cancel the pending frame. The next change schedules a new one."""
        self._changed_at, self._held = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule_again(self) -> None:
        if self._changed_at is not None:
            self._schedule(self._changed_at)

    def _schedule(self, changed_at: float) -> None:
        loop = asyncio.get_running_loop()
        due = changed_at + MAX_SECONDS
        if not self._held:
            due = min(due, max(loop.time() + SETTLE_SECONDS, self._painted_at + FRAME_SECONDS))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(due, self._frame)

    def _frame(self) -> None:
        self.stop()
        self._painted_at = asyncio.get_running_loop().time()
        self._paint()
