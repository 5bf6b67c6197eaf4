"""One request in progress: a reader task that owns the connection, a small queue, and a watchdog.

The reader is a separate task so that an abort can close the connection immediately, even if nothing awaits the next
event. The queue is bounded: a slow consumer pauses reading, and the pause does not count as silence of the server. One
timer does the watching; each event only updates a timestamp.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.core.abort import AbortReason, AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Json
from agentcli.providers.base import Failure, FailureKind, Quiet
from agentcli.providers.failures import aborted, internal, no_content, stalled
from agentcli.providers.retry import Timeouts
from agentcli.providers.transports.base import TransportFailure

MAILBOX = 256
DRAIN_SECONDS = 0.05
"""Seconds to wait for the last bytes of a finished reply, so that the connection can be reused."""


class Attempt:
    """Call `next()` until it returns None or raises `TransportFailure`, then always `close()`."""

    def __init__(self, source: AsyncGenerator[Json, None], timeouts: Timeouts, signal: AbortSignal) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._timeouts = timeouts
        self._items: deque[Json | Quiet] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._failure: Failure | None = None
        self._ended = False
        self._draining = False
        now = self._loop.time()
        self._waiting_since: float | None = now
        self._last_content = now
        self._quiet_said = False
        self._timer: asyncio.TimerHandle | None = None
        self._reader = start_task(self._read(), name="model reply")
        self._watch()
        self._unhook = signal.on_abort(self._abort)

    async def next(self) -> Json | Quiet | None:
        """The next event, `Quiet` after a silent period, or None at the end of the body."""
        while True:
            if self._failure is not None and (not self._items or self._failure.kind is FailureKind.ABORTED):
                raise TransportFailure(self._failure)
            if self._items:
                item = self._items.popleft()
                if self._room is not None and len(self._items) < MAILBOX // 2 and not self._room.done():
                    self._room.set_result(None)
                return item
            if self._ended:
                return None
            self._wake = self._loop.create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    async def close(self, *, whole: bool = False) -> None:
        """Stop the reader and wait for it. `whole`: the reply is complete, so read its last bytes first."""
        self._unhook()
        if self._timer is not None:
            self._timer.cancel()
        if whole and not self._reader.done():
            self._draining = True
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
            await asyncio.wait({self._reader}, timeout=DRAIN_SECONDS)
        await cancel_and_wait([self._reader])

    async def _read(self) -> None:
        try:
            async with aclosing(self._source) as source:
                async for item in source:
                    if self._draining:
                        continue
                    now = self._loop.time()
                    if item and item.get("type") != "ping":
                        self._last_content = now
                    if item:
                        self._items.append(item)
                        self._notify()
                        if len(self._items) >= MAILBOX:
                            await self._wait_for_room()
                            now = self._last_content = self._loop.time()
                    self._waiting_since = now
                    self._quiet_said = False
        except TransportFailure as error:
            self._fail(error.failure)
        except Exception as error:  # noqa: BLE001 - the contract is that a provider never raises; reported as a bug
            self._fail(internal(error))
        finally:
            self._ended = True
            self._waiting_since = None
            self._notify()

    async def _wait_for_room(self) -> None:
        self._waiting_since = None
        self._room = self._loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _fail(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
        self._notify()

    def _abort(self, _reason: AbortReason) -> None:
        self._failure = aborted()
        self._reader.cancel()
        self._notify()

    def _watch(self) -> None:
        if self._ended or self._failure is not None:
            return
        timeouts, now = self._timeouts, self._loop.time()
        if self._waiting_since is None:
            due = now + min(timeouts.quiet_after, timeouts.idle_timeout)
        else:
            silent_since = self._waiting_since
            if now >= silent_since + timeouts.idle_timeout:
                self._stop(stalled(timeouts.idle_timeout))
                return
            if now >= self._last_content + timeouts.content_deadline:
                self._stop(no_content(timeouts.content_deadline))
                return
            if now >= silent_since + timeouts.quiet_after and not self._quiet_said:
                self._quiet_said = True
                self._items.append(Quiet(timeouts.quiet_after))
                self._notify()
            due = min(silent_since + timeouts.idle_timeout, self._last_content + timeouts.content_deadline)
            if not self._quiet_said:
                due = min(due, silent_since + timeouts.quiet_after)
        self._timer = self._loop.call_at(due, self._watch)

    def _stop(self, failure: Failure) -> None:
        self._fail(failure)
        self._reader.cancel()
