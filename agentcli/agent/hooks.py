"""Await hooks in a stage of the loop; wrap texts of hooks in a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from agentcli.agent.ports import (
    EmitEvent,
    Hooks,
)
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import Event
from agentcli.core.messages import Message, Origin, user_message

T = TypeVar("T")


async def ask_hooks(
    hooks: Hooks, call: Callable[[Hooks], Coroutine[Any, Any, T]], signal: AbortSignal, emit: EmitEvent
) -> T:
    """The verdict of `call`, which gets the hooks to run; emits what they report meanwhile. Raises `Aborted`."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    reporting = hooks.reporting_to(events.put)
    if reporting is hooks:
        return await signal.run(call(hooks))
    task = start_task(signal.run(call(reporting)))
    task.add_done_callback(lambda _task: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            await emit(event)
        return await task
    finally:
        await cancel_and_wait([task])
        if not task.cancelled():
            task.exception()  # retrieved even if the consumer has gone


def hook_message(texts: Iterable[str], message_id: str) -> Message:
    """A message with the texts of hooks, separated by blank lines: a model reads adjacent blocks as one text."""
    return user_message("\n\n".join(texts), message_id, Origin.HOOK)
