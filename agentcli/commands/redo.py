"""/redo: take the last undo back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.files import undo_text
from agentcli.core.events import Event


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    report = await engine.redo()
    yield say(undo_text(engine, report, again=True)) if report.done else fail(report.text)
