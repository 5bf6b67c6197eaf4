"""/tasks: commands in the background."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    tasks = engine.background.tasks
    if not tasks:
        yield say("There are no commands in the background.")
        return
    lines = []
    for task in tasks:
        about = f"  ({plain_line(task.summary, 200)})" if task.summary else ""
        lines.append(f"  {task.id}  {task.status:<9} {plain_line(task.command, 200)}{about}")
    yield say("\n".join(lines))
