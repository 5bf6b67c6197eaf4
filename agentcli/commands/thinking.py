"""/thinking: show or change the thinking mode of the model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import cast, get_args

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.confirmed_change import NOW_HELP, change_if_confirmed, without_now
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.providers.base import ThinkingMode

MANUAL = Manual(
    f"The available modes depend on the model. {NOW_HELP}",
    (("/thinking", "show the mode"), ("/thinking disabled", "turn thinking off")),
)


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    info = engine.catalog.get(engine.model)
    arguments, at_once = without_now(arguments)
    wanted = arguments.lower()
    unknown = f"No thinking mode is sent to {info.id}: agentcli does not know which ones it has."
    offered = f"{info.id} supports {', '.join(info.thinking)}." if info.thinking else unknown
    if not wanted:
        mode = engine.profile.thinking.mode
        yield say(f"Thinking is {mode}. {offered}" if info.thinking else f"{unknown} For others it is {mode}.")
        return
    if wanted not in get_args(ThinkingMode):
        raise UsageError(f"There is no thinking mode {arguments!r}. {offered}")
    if info.thinking and wanted not in info.thinking:
        always = " It always thinks." if info.always_thinks else ""
        raise UsageError(f"{info.id} does not support thinking {wanted}.{always} {offered}")
    thinking = replace(engine.profile.thinking, mode=cast(ThinkingMode, wanted))
    change = change_if_confirmed(
        engine,
        replace(engine.profile, thinking=thinking),
        f"Change thinking to {wanted}?",
        lambda: engine.set_thinking(thinking),
        lambda: f"Thinking is {wanted}." if info.thinking else f"Thinking is {wanted} for other models. {unknown}",
        f"Thinking is still {engine.profile.thinking.mode}.",
        at_once=at_once,
    )
    async with aclosing(change) as events:
        async for event in events:
            yield event
