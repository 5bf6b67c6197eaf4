"""/effort: show or change the effort level. A level that the model does not support becomes the nearest one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.confirmed_change import NOW_HELP, change_if_confirmed, without_now
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.providers.base import Effort
from agentcli.providers.catalog import EFFORTS, nearest_effort

MANUAL = Manual(
    f"Levels: low, medium, high, xhigh, max, or auto for the model's default. {NOW_HELP}",
    (("/effort", "choose from a list"), ("/effort high", "change the effort")),
)


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    info = engine.catalog.get(engine.model)
    arguments, at_once = without_now(arguments)
    wanted = arguments.lower()
    if not wanted and front_end.has_pages:
        if (picked := await front_end.page("effort", engine)) is not None:
            front_end.send(f"/effort {picked} now")
        return
    if not wanted:
        yield say(f"{_current_effort(engine)} {_offered(engine)}")
        return
    level: Effort | None = None
    message: str | None = None
    if wanted in EFFORTS:
        level, message = nearest_effort(info, wanted)
        if level is None and message is not None:
            yield say(message)
            return
    elif wanted != "auto":
        raise UsageError(f"There is no effort level {arguments!r}. {_offered(engine)}")
    change = change_if_confirmed(
        engine,
        replace(engine.profile, effort=level),
        f"Change the effort to {level or 'auto'}?",
        lambda: engine.set_effort(level),
        lambda: message or _current_effort(engine),
        f"The effort is still {engine.effort or 'auto'}.",
        at_once=at_once,
    )
    async with aclosing(change) as events:
        async for event in events:
            yield event


def _current_effort(engine: Engine) -> str:
    info = engine.catalog.get(engine.model)
    if engine.effort is not None:
        return f"The effort is {engine.effort}."
    default = f" ({info.default_effort} for {info.id})" if info.default_effort else ""
    return f"The effort is auto: the model's default{default}."


def _offered(engine: Engine) -> str:
    info = engine.catalog.get(engine.model)
    if not info.efforts:
        return f"{info.id} does not support effort levels."
    return f"{info.id} supports {', '.join(info.efforts)} or auto."
