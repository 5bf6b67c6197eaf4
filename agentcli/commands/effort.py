"""/effort: show or choose how much effort the model makes. A level that the model lacks becomes the nearest one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, rebilled, say
from agentcli.core.events import Event
from agentcli.providers.base import Effort
from agentcli.providers.catalog import EFFORTS, nearest_effort


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    info = engine.catalog.get(engine.model)
    wanted = arguments.lower()
    if not wanted:
        yield say(f"{_in_force(engine)} {_offered(engine)}")
    elif wanted == "auto":
        yield say(_changed(engine, None, ""))
    elif wanted in EFFORTS:
        level, message = nearest_effort(info, wanted)
        yield say(_changed(engine, level, message or ""))
    else:
        yield fail(f"There is no effort level {arguments!r}. {_offered(engine)}")


def _changed(engine: Engine, level: Effort | None, message: str) -> str:
    before = engine.profile.effort
    engine.set_effort(level)
    return (message or _in_force(engine)) + (rebilled(engine) if level != before else "")


def _in_force(engine: Engine) -> str:
    info = engine.catalog.get(engine.model)
    if engine.profile.effort is not None:
        return f"The effort is {engine.profile.effort}."
    default = f", for {info.id} that is {info.default_effort}" if info.default_effort else ""
    return f"The effort is auto, the model's own default{default}."


def _offered(engine: Engine) -> str:
    info = engine.catalog.get(engine.model)
    if not info.efforts:
        return f"{info.id} has no effort levels."
    return f"{info.id} takes {', '.join(info.efforts)} or auto."
