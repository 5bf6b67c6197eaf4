"""/undo: put back what the last prompt changed in files; again to go further back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.files import undo_text
from agentcli.core.events import Event


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    report = await engine.undo()
    if report.done:
        yield say(undo_text(engine, report, again=False))
        return
    hint = "" if engine.messages else " This is a new session; --continue goes on with the last one in this folder."
    yield fail(f"{report.text}{hint}")
