"""/effort: show or choose how much effort the model makes. A level that the model lacks becomes the nearest one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.core.events import Event
from agentcli.providers.catalog import EFFORTS, nearest_effort


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    info = engine.catalog.get(engine.model)
    wanted = arguments.lower()
    if not wanted:
        yield say(f"{_in_force(engine)} {_offered(engine)}")
    elif wanted == "auto":
        engine.set_effort(None)
        yield say(_in_force(engine))
    elif wanted in EFFORTS:
        level, message = nearest_effort(info, wanted)
        engine.set_effort(level)
        yield say(message or _in_force(engine))
    else:
        yield fail(f"There is no effort level {arguments!r}. {_offered(engine)}")


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
