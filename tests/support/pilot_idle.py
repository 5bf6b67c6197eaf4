"""Let Textual's pilot wait for an idle app without sleeping.

`Pilot.pause` and `Pilot.press` sleep 20 ms or more of real time for every key, and as long as the process uses the CPU:
most of the time of a test of the app. Here the loop's clock stands still meanwhile, and jumps to the next timer when
nothing is ready: the wait ends when all is done, however slow the machine is. While a thread works for the loop the
sleep is a real one.

Both also wait until every widget has handled its messages, for which they send one more to each. Here the loop itself
tells: nothing is ready to run, and every widget waits for its next message.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections.abc import Iterator
from typing import Any

import textual.app
import textual.pilot
from textual._wait import SLEEP_GRANULARITY
from textual._wait import wait_for_idle as sleep_until_idle
from textual.app import App
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout

ROUNDS = 2
"""A timer that fires at the end of the first sleep may have caused something."""
MAX_STOP = 1.0
"""Seconds after which the clock goes on although something is always ready."""


class _Clock:
    """The clock of one loop: real time, and what was jumped over."""

    def __init__(self, loop: Any) -> None:
        self._waiting = 0
        """How many wait for an idle app."""
        self._stopped_at = 0.0
        self._threads = 0
        self._jumped = 0.0
        self._quiet: tuple[asyncio.Future[None], App[Any]] | None = None
        """Who waits until this app has handled its messages."""
        self._select = loop._selector.select
        self._run_in_executor = loop.run_in_executor
        loop._selector.select = self.select
        loop.run_in_executor = self.run_in_executor
        loop.time = self.time

    @property
    def has_threads(self) -> bool:
        return self._threads > 0

    def time(self) -> float:
        now = time.monotonic()
        if self._waiting:
            now = max(self._stopped_at, now - MAX_STOP)
        return now + self._jumped

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        if not self._waiting:
            self._stopped_at = time.monotonic()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def until_handled(self, app: App[Any], timeout: float) -> None:
        """Wait until all messages are handled, also those that handling them causes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._quiet = future, app
        late = WaitForScreenTimeout("Timed out while waiting for widgets to process pending messages.")
        timer = loop.call_later(timeout, future.set_exception, late)
        try:
            await future
        finally:
            timer.cancel()
            self._quiet = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._quiet is not None and timeout != 0 and not self._quiet[0].done():
            ready: list[tuple[selectors.SelectorKey, int]] = self._select(0)
            future, app = self._quiet
            if not ready and (app._exception is not None or not any(map(_is_busy, _pumps(app)))):
                future.set_result(None)
                return ready
            return ready or self._select(timeout)
        if not self._waiting or timeout is None or timeout <= 0:
            return self._select(timeout)  # type: ignore[no-any-return]
        ready = self._select(timeout if self.has_threads else 0)
        if not ready:
            self._jumped += timeout
        return ready

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._run_in_executor(*arguments)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _future: asyncio.Future[Any]) -> None:
        self._threads -= 1


def _pumps(app: App[Any]) -> list[MessagePump]:
    return [app, *app.screen.walk_children(with_self=True)] if app.screen_stack else []


def _is_busy(pump: MessagePump) -> bool:
    """Whether it handles a message or has not begun to wait for one."""
    return pump.is_running and not pump._closing and not pump._message_queue.ready_event._waiters


def _clock() -> _Clock:
    loop: Any = asyncio.get_running_loop()
    if (clock := getattr(loop, "pilot_clock", None)) is None:
        clock = loop.pilot_clock = _Clock(loop)
    return clock  # type: ignore[no-any-return]


async def wait_for_screen(self: Pilot[Any], timeout: float = 30.0) -> bool:
    if not self.app.screen_stack:
        return False
    await _clock().until_handled(self.app, timeout)
    return self.app._exception is None


async def wait_for_idle(min_sleep: float = SLEEP_GRANULARITY, max_sleep: float = 1) -> None:
    clock = _clock()
    for _round in range(ROUNDS):
        if clock.has_threads:
            await sleep_until_idle(min_sleep, max_sleep)
            return
        with clock.stopped():
            await asyncio.sleep(SLEEP_GRANULARITY)


async def until_threads_ended() -> None:
    """What `asyncio.run` waits for at its end, for a loop that stays."""
    clock = _clock()
    while clock.has_threads:
        await asyncio.sleep(0.001)


def install() -> None:
    textual.app.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    textual.pilot.wait_for_idle = wait_for_idle  # type: ignore[attr-defined]
    Pilot._wait_for_screen = wait_for_screen  # type: ignore[method-assign]
