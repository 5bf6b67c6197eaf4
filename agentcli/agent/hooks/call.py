"""Await a hook inside a generator and yield the events that it reports meanwhile; wrap texts of hooks in a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from agentcli.agent.ports import Hooks
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import Event
from agentcli.core.messages import Message, Origin, user_message

T = TypeVar("T")


class HookCall(Generic[T]):
    """One call of hooks. `call` gets the hooks to run. Result: `verdict`, or `default` after an abort."""

    def __init__(
        self, hooks: Hooks, call: Callable[[Hooks], Coroutine[Any, Any, T]], signal: AbortSignal, default: T
    ) -> None:
        self._hooks = hooks
        self._call = call
        self._signal = signal
        self.verdict = default

    async def run(self) -> AsyncGenerator[Event, None]:
        """Run the call; raises `Aborted`."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        hooks = self._hooks.reporting_to(events.put)
        if hooks is self._hooks:
            self.verdict = await self._signal.run(self._call(hooks))
            return
        task = start_task(self._signal.run(self._call(hooks)))
        task.add_done_callback(lambda _task: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            self.verdict = await task
        finally:
            await cancel_and_wait([task])
            if not task.cancelled():
                task.exception()  # retrieved even if the consumer has left


def hook_message(texts: Iterable[str], message_id: str) -> Message:
    """A message with the texts of hooks, separated by blank lines: a model reads adjacent blocks as one text."""
    return user_message("\n\n".join(texts), message_id, Origin.HOOK)
