"""Await hooks in a stage of the loop; wrap texts of hooks in a message; require structured output before a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import (
    EmitEvent,
    Hooks,
    PostToolVerdict,
    PromptVerdict,
    StopVerdict,
)
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import Event
from agentcli.core.messages import Json, Message, Origin, ToolResultBlock, ToolUseBlock, user_message

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


MAX_TRIES = 5


class RequireOutput(Hooks):
    """The count restarts with each prompt."""

    def __init__(self, tool_name: str) -> None:
        self._tool_name = tool_name
        self._misses = 0

    @property
    def checks_prompts(self) -> bool:
        return False

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return self._count(call) if result.is_error else PostToolVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return self._count(call)

    def _count(self, call: ToolUseBlock) -> PostToolVerdict:
        if call.name != self._tool_name:
            return PostToolVerdict()
        self._misses += 1
        if self._misses < MAX_TRIES:
            return PostToolVerdict()
        return PostToolVerdict(f"Output did not match the schema in {MAX_TRIES} attempts.", by="schema")

    async def before_prompt(self, text: str) -> PromptVerdict:
        self._misses = 0
        return PromptVerdict()

    async def before_stop(self, state: LoopState) -> StopVerdict:
        self._misses += 1
        if self._misses >= MAX_TRIES:
            return StopVerdict(prevented=f"{self._tool_name} was not called in {MAX_TRIES} attempts.", by="schema")
        return StopVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")
