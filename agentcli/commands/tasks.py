"""/tasks: sub-agents, and commands in the background."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line

MANUAL = Manual(
    "Shows what each agent does, opens its transcript, and stops agents and commands. Ctrl+B sends the running command "
    "to the background. All background commands and agents end with the session.",
    (("/tasks", "list sub-agents and background commands"),),
)


async def run(engine: Engine, _arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    if front_end.has_pages:
        task_id = await front_end.page("tasks", engine)
        if task_id is not None and not await engine.background.stop(task_id):
            yield say(f"{task_id} stops with the agent that has started it.")
        return
    tasks = engine.background.tasks
    if not tasks:
        yield say("Nothing runs in the background.")
        return
    lines = []
    for task in tasks:
        about = f"  ({plain_line(task.summary, 200)})" if task.summary else ""
        lines.append(f"  {task.id}  {task.status:<9} {plain_line(task.command, 200)}{about}")
    yield say("\n".join(lines))
