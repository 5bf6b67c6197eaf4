"""Abort signals: a controller requests a stop with a reason, and signals observe it.

The write side (`AbortController`) belongs to the engine and the front ends; the read side (`AbortSignal`) is passed
explicitly, as the last parameter, to everything that may take long. An abort ends in a typed terminal. Task
cancellation is different: it means that the consumer is gone, and is never used here to request a stop.

A signal's callbacks run synchronously inside `abort()`, so that a connection or a process group is closed within the
key press of ESC, not one loop iteration later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from enum import StrEnum
from typing import Self, TypeVar

from agentcli.core.aio import start_task

T = TypeVar("T")


class AbortReason(StrEnum):
    USER_CANCEL = "user_cancel"
    """ESC or Ctrl+C: leaves an interruption message."""
    INTERRUPT = "interrupt"
    """A new prompt was sent during the work; no interruption message is needed."""
    BUDGET = "budget"
    """The engine's budget in USD is spent."""
    SHUTDOWN = "shutdown"
    """The program is ending (SIGTERM, terminal gone)."""


class Aborted(Exception):
    """Raised only by `AbortSignal.run` and caught by its caller; never crosses a public boundary."""

    def __init__(self, reason: AbortReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class AbortSignal:
    """Read side. Not thread-safe: use it on one event loop."""

    __slots__ = ("_callbacks", "_reason")

    def __init__(self) -> None:
        self._reason: AbortReason | None = None
        self._callbacks: dict[int, Callable[[AbortReason], object]] = {}

    @property
    def reason(self) -> AbortReason | None:
        return self._reason

    @property
    def aborted(self) -> bool:
        return self._reason is not None

    def on_abort(self, callback: Callable[[AbortReason], object]) -> Callable[[], None]:
        """Call `callback(reason)` once on abort (at once if already aborted); returns a function that removes it."""
        if self._reason is not None:
            callback(self._reason)
            return lambda: None
        key = id(callback)
        while key in self._callbacks:
            key += 1
        self._callbacks[key] = callback

        def unhook() -> None:
            self._callbacks.pop(key, None)

        return unhook

    async def wait(self) -> AbortReason:
        if self._reason is not None:
            return self._reason
        future: asyncio.Future[AbortReason] = asyncio.get_running_loop().create_future()

        def resolve(reason: AbortReason) -> None:
            if not future.done():
                future.set_result(reason)

        unhook = self.on_abort(resolve)
        try:
            return await future
        finally:
            unhook()

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Await something until the abort at the latest: then cancel it, await it, and raise `Aborted`.

        If it finished at the same time, its value is returned, so that finished work is not lost.
        """
        task: asyncio.Future[T]
        task = start_task(awaitable) if isinstance(awaitable, Coroutine) else asyncio.ensure_future(awaitable)
        if self._reason is not None and not task.done():
            task.cancel()
        unhook = self.on_abort(lambda _reason: task.cancel())
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._reason is not None and not (current and current.cancelling()):
                raise Aborted(self._reason) from None
            raise
        finally:
            unhook()
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def acquire(self, lock: asyncio.Lock | asyncio.Semaphore) -> None:
        """Acquire a lock, waiting until an abort at most. Raises `Aborted`; holds nothing then, nor when cancelled,
        even if either comes just after the lock was acquired."""
        is_held = False

        async def take() -> None:
            nonlocal is_held
            await lock.acquire()
            is_held = True

        try:
            await self.run(take())
        except BaseException:
            if is_held:
                lock.release()
            raise

    async def sleep(self, seconds: float) -> bool:
        """Sleep; True if the time passed, False (immediately) after an abort."""
        if self._reason is not None:
            return False
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return True
        return False

    def _fire(self, reason: AbortReason) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        callbacks = list(self._callbacks.values())
        self._callbacks.clear()
        for callback in callbacks:
            callback(reason)


class AbortController:
    """Write side. The first reason is kept: aborting twice changes nothing."""

    __slots__ = ("_unhook", "signal")

    def __init__(self, parent: AbortSignal | None = None) -> None:
        self.signal = AbortSignal()
        self._unhook: Callable[[], None] = lambda: None
        if parent is not None:
            self._unhook = parent.on_abort(self.signal._fire)

    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None:
        self.signal._fire(reason)

    def close(self) -> None:
        """Detach from the parent, which would otherwise keep this child alive."""
        self._unhook()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
