"""Shared async helpers: merging producers, stopping tasks, work in threads, and abort signals.

An `AbortController` requests a stop with a reason, and signals observe it. The write side belongs to the engine and the
front ends; the read side (`AbortSignal`) is passed explicitly, as the last parameter, to everything that may take long.
An abort ends in a typed terminal. Task cancellation is different: it means that the consumer is gone, and is never used
here to request a stop.

A signal's callbacks run synchronously inside `abort()`, so that a connection or a process group is closed within the
key press of ESC, not one loop iteration later.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from enum import StrEnum
from functools import partial
from types import coroutine
from typing import Any, Generic, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


CLEANUP_SECONDS = 2.0
"""Time for a task that is already cancelled to clean up before it is cancelled again."""
_LOOK_SECONDS = 0.05


def start_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Start a task, which first runs in the next iteration of the event loop.

    With `create_task` the loop's task factory decides: the one of Textual and of some embedding programs runs a task
    before its caller has stored it or has done what must happen first, such as recording a call.
    """
    return asyncio.Task(work, loop=asyncio.get_running_loop(), name=name)


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until each has ended; their exceptions are ignored.

    If the caller is cancelled meanwhile, the tasks are still awaited before the cancellation continues. A task that was
    cancelled before is in its cleanup, which a second cancellation would interrupt: it gets `CLEANUP_SECONDS`. If only
    a timeout of its own (`asyncio.timeout`) had cancelled it, the task continues after that and is cancelled then.
    """
    pending = [task for task in tasks if not task.done()]
    cleaning = [task for task in pending if task.cancelling()]
    for task in pending:
        if task not in cleaning:
            task.cancel()
    timers: list[asyncio.TimerHandle] = []
    if cleaning:
        _cancel_after_cleanup(cleaning, timers)
    try:
        await wait_uncancelled(pending)
    finally:
        for timer in timers:
            timer.cancel()


def _cancel_after_cleanup(tasks: Iterable[asyncio.Task[Any]], timers: list[asyncio.TimerHandle]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + CLEANUP_SECONDS

    def look_at(task: asyncio.Task[Any]) -> None:
        left = end - loop.time()
        if left <= 0 or not task.cancelling():
            task.cancel()
        else:
            timers.append(loop.call_later(min(left, _LOOK_SECONDS), look_at, task))

    for task in tasks:
        look_at(task)


async def wait_uncancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Wait until tasks or futures have ended, even if the caller is cancelled; the cancellation is raised
    afterwards.

    The caller may be cancelled any number of times, as a cancel scope of anyio does with every iteration of the event
    loop. `asyncio.wait` needs an iteration even for finished futures and would never return there, so the futures
    themselves are checked after each interruption. A caller in such a scope keeps the event loop busy while it waits;
    code that the `mcp` library calls uses `mcp/link.py`.
    """
    pending = [task for task in tasks if not task.done()]
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
        pending = [task for task in pending if not task.done()]
    if cancelled is not None:
        raise cancelled


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread. If cancelled, still waits for it, so that no work continues unnoticed."""
    call = partial(copy_context().run, work, *args, **kwargs)
    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        try:
            await wait_uncancelled([future])
        finally:
            if not future.cancelled():
                future.exception()
        raise


async def in_daemon_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread of its own, which keeps neither a cancelled caller nor the program from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            value = work(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            # A future of the event loop cannot hold every kind of exception.
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            problem = error if is_plain else RuntimeError(f"{type(error).__name__}: {error}")
            with suppress(InvalidStateError):  # the caller was cancelled
                future.set_exception(problem)
        else:
            with suppress(InvalidStateError):
                future.set_result(value)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)


class Merge(Generic[T]):
    """Merge several producers into one consumer, with back-pressure: producers wait while `depth` items are queued.

    Producers are coroutines that call `put`; the consumer iterates until every producer has ended. A producer that
    raises ends the merge with that exception (producers here do not raise for expected failures, so it is a bug and
    must be seen). End it with `aclose()`, which cancels and awaits all producers.
    """

    def __init__(self, depth: int = 64) -> None:
        # Not an `asyncio.Queue`, which needs a dozen calls per item.
        self._items: deque[T] = deque()
        self._depth = depth
        self._room = asyncio.Event()
        self._has_waiting_producers = False
        self._wake: asyncio.Future[None] | None = None
        """Future that the consumer waits for while there is no item."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._closed = False

    def start(self, producer: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Start a producer; allowed at any time, also while the consumer iterates."""
        task = start_task(producer, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    async def put(self, item: T) -> None:
        while len(self._items) >= self._depth:
            self._has_waiting_producers = True
            self._room.clear()
            await self._room.wait()
        self._items.append(item)
        self._notify()

    def offer(self, item: T) -> bool:
        """Put an item if there is room, without waiting; false if there is none."""
        if self._closed or len(self._items) >= self._depth:
            return False
        self._items.append(item)
        self._notify()
        return True

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._error is None:
            self._error = error
        self._notify()

    def __aiter__(self) -> Merge[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            if self._error is not None:
                raise self._error
            if self._items:
                item = self._items.popleft()
                if self._has_waiting_producers:
                    self._has_waiting_producers = False
                    self._room.set()
                return item
            if not self._tasks:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    async def aclose(self) -> None:
        self._closed = True
        await cancel_and_wait(self._tasks)


class Outlet(Generic[T]):
    """What a coroutine emits, as an async generator: its consumer can pause and close the work.

    The coroutine runs inside the generator, as the body of an `async def` with `yield` would, not in a task of its own,
    which would take two turns of the event loop for each item. So only the work itself may `emit`, not a task that it
    has started. Inside a timeout or a task group it must not, as it must not yield there.
    """

    def __init__(self) -> None:
        self._soon: deque[T] = deque()

    @coroutine
    def emit(self, item: T) -> Generator[_Emitted[T], None, None]:
        """Hand an item to the consumer and continue when it asks for the next; does nothing once it has gone."""
        yield _Emitted(self, item)

    def emit_soon(self, item: T) -> None:
        """Hand over an item before the next one that is emitted. May be called anywhere."""
        self._soon.append(item)

    async def deliver(self, work: Coroutine[Any, Any, object]) -> AsyncGenerator[T, None]:
        """Run the work and yield what it emits; raises what it raises. Closing the generator cancels the work and waits
        for its end."""
        resume = partial(work.send, None)
        has_consumer = True
        while True:
            try:
                step = resume()
            except StopIteration:
                return
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if has_consumer or (task is not None and task.cancelling()):
                    raise
                return
            resume = partial(work.send, None)
            try:
                if not isinstance(step, _Emitted) or step.outlet is not self:
                    await _wait_for(step)
                elif has_consumer:
                    self._soon.append(step.item)
                    while self._soon:
                        yield self._soon.popleft()
            except GeneratorExit:
                # Not thrown into the work: it would close the awaited coroutines, which could await nothing any more.
                has_consumer = False
                resume = partial(work.throw, asyncio.CancelledError())
            except BaseException as error:  # noqa: BLE001 - raised where the work waits
                resume = partial(work.throw, error)


class _Emitted(Generic[T]):
    """Passed by `emit` to the `deliver` of its outlet."""

    __slots__ = ("item", "outlet")

    def __init__(self, outlet: Outlet[T], item: T) -> None:
        self.outlet = outlet
        self.item = item


@coroutine
def _wait_for(step: Any) -> Generator[Any, None, None]:
    """Wait for what a coroutine waits for."""
    yield step


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
                with suppress(asyncio.CancelledError, Exception):
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
