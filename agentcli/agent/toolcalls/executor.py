"""Schedule the tool calls of a reply (SPEC T1, T2).

Calls that can run in parallel start as soon as they are known, up to a limit. Any other call waits until all calls
before it have ended, and all calls after it wait for it. Results are kept in the order of the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Protocol

from agentcli.agent.toolcalls.call_data import CallResult, failed, interrupted_call
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.core.abort import AbortController, AbortReason, AbortSignal
from agentcli.core.aio import cancel_and_wait
from agentcli.core.events import Event
from agentcli.core.frozen import replace, slotted
from agentcli.core.messages import ToolUseBlock
from agentcli.tools.base import ToolContext

ABORT_GRACE_SECONDS = 3.0
"""Time for an aborted tool to clean up: two seconds for a process that ignores SIGTERM, and a little more."""

SIBLING_FAILED = "Not run to its end: a call that ran beside it failed, and this one depended on it."


Put = Callable[[Event | None], Awaitable[None]]


class Spawn(Protocol):
    def __call__(self, producer: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]: ...


@slotted
class _Entry:
    call: ToolUseBlock
    safe: bool
    beside: bool
    """Whether it may run in parallel."""
    task: asyncio.Task[None] | None = None
    working: bool = False
    """Whether the tool itself has started: the call is no longer waiting for permission."""
    result: CallResult | None = None


class Executor:
    """One per reply. `submit` calls as they complete, then `close`. Starts calls while the reply streams."""

    starts_while_streaming: ClassVar[bool] = True

    def __init__(self, runner: ToolRunner, context: ToolContext, limit: int, signal: AbortSignal) -> None:
        self._runner = runner
        self._limit = limit
        self._entries: list[_Entry] = []
        self._closed = False
        self._controller = AbortController(parent=signal)
        self._spawn: Spawn | None = None
        self._put: Put | None = None
        self.given = context
        """The context in which all calls of the reply run."""

    @property
    def context(self) -> ToolContext:
        """The context for the calls of the next reply: changes by the calls of this one, applied in their order (T8).
        They do not affect one another: the model sends them together because they are independent."""
        folders = (entry.result.output.new_cwd for entry in reversed(self._entries) if entry.result is not None)
        cwd = next((folder for folder in folders if folder is not None), None)
        return self.given if cwd is None else replace(self.given, cwd=cwd)

    def connect(self, spawn: Spawn, put: Put) -> None:
        """Set where its tasks are started and its events are sent; None is sent when a result has become available."""
        self._spawn, self._put = spawn, put

    def submit(self, call: ToolUseBlock) -> None:
        is_safe = self._runner.is_safe(call)
        self._entries.append(_Entry(call, is_safe, is_safe or self._runner.runs_beside(call)))
        self._start_ready()

    def close(self) -> None:
        self._closed = True
        self._start_ready()

    @property
    def has_unsafe_work(self) -> bool:
        """Whether a call with side effects has begun: then the reply can no longer be discarded."""
        return any(entry.working and not entry.safe for entry in self._entries)

    @property
    def waiting_ids(self) -> tuple[str, ...]:
        """Ids of the calls that have no result yet and may still get one."""
        if self._controller.signal.aborted:
            return ()
        return tuple(entry.call.id for entry in self._entries if entry.result is None)

    @property
    def last_begun(self) -> ToolUseBlock | None:
        return next((entry.call for entry in reversed(self._entries) if entry.working), None)

    def results_ready(self) -> list[CallResult]:
        """Results in the order of the calls, up to the first call that has none yet."""
        ready = []
        for entry in self._entries:
            if entry.result is None:
                break
            ready.append(entry.result)
        return ready

    def results(self) -> list[CallResult]:
        """One result for every call, synthetic for calls without one. Call it when nothing runs any more."""
        return [entry.result or self._interrupted(entry) for entry in self._entries]

    def _interrupted(self, entry: _Entry) -> CallResult:
        text = interrupted_call(self._controller.signal.reason, entry.working)
        return failed(entry.call, text, "interrupted", "interrupted")

    def drop_unstarted(self) -> None:
        """Drop the calls that have not begun to work; for a reply that was cut off after them."""
        last = self.last_begun
        kept = next((i + 1 for i, entry in enumerate(self._entries) if entry.call is last), 0)
        for entry in self._entries[kept:]:
            if entry.task is not None:
                entry.task.cancel()
        self._entries = self._entries[:kept]

    async def abandon(self) -> None:
        """Cancel everything; results are void. Waits until all tasks have ended."""
        self._controller.abort(AbortReason.USER_CANCEL)
        await cancel_and_wait([entry.task for entry in self._entries if entry.task is not None])
        self.dispose()

    def dispose(self) -> None:
        """Detach it from its turn when nothing runs any more. The turn refers to it and holds a whole request: in a
        reference cycle both would stay until the garbage collector finds them."""
        self._controller.close()
        self._spawn = self._put = None

    # ------------------------------------------------------------------------------------------------ scheduling

    def _start_ready(self) -> None:
        if self._controller.signal.aborted or not (self._closed or self.starts_while_streaming):
            return
        running = sum(entry.task is not None and entry.result is None for entry in self._entries)
        all_done = True
        for entry in self._entries:
            if entry.task is None and entry.result is None:
                if running >= self._limit or not (entry.beside or all_done):
                    return
                assert self._spawn is not None
                entry.task = self._spawn(self._work(entry), name=f"tool {entry.call.name}")
                running += 1
            if entry.result is None:
                all_done = False
                if not entry.beside:
                    return

    async def _work(self, entry: _Entry) -> None:
        assert self._put is not None
        entry.result = await self._bounded(entry, self._put)
        if entry.result.output.cancel_siblings:
            self._cancel_siblings(entry)
        self._start_ready()
        await self._put(None)

    async def _bounded(self, entry: _Entry, put: Put) -> CallResult:
        """The call's result; after an abort it has `ABORT_GRACE_SECONDS` to clean up."""
        signal, loop, task = self._controller.signal, asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        timer: asyncio.TimerHandle | None = None

        def begun() -> None:
            entry.working = True

        def end_later(_reason: AbortReason) -> None:
            nonlocal timer
            timer = loop.call_later(ABORT_GRACE_SECONDS, end_now)

        def end_now() -> None:
            # A second cancellation would interrupt the cleanup after the first.
            if not task.cancelling():
                limit.reschedule(loop.time())

        unhook: Callable[[], None] | None = None
        try:
            async with asyncio.timeout(None) as limit:
                unhook = signal.on_abort(end_later)
                return await self._runner.run(entry.call, self.given, signal, put, begun)
        except TimeoutError:
            return self._interrupted(entry)
        finally:
            if unhook is not None:
                unhook()
            if timer is not None:
                timer.cancel()

    def _cancel_siblings(self, failed_entry: _Entry) -> None:
        for entry in self._entries:
            if entry is not failed_entry and entry.result is None:
                entry.result = failed(entry.call, SIBLING_FAILED, "cancelled")
                if entry.task is not None:
                    entry.task.cancel()


class BatchExecutor(Executor):
    """Starts calls only when the reply is complete."""

    starts_while_streaming = False
