"""/tasks: list sub-agents and background commands, and stop them."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "Shows what each agent does, opens its transcript, and stops agents and commands. Ctrl+B sends the running command "
    "or agent to the background. All background commands and agents end with the session.",
    (("/tasks", "list sub-agents and background commands"),),
)


async def run(engine: Engine, _arguments: str, front_end: FrontEnd) -> str | None:
    if front_end.has_pages:
        task_id = await front_end.page("tasks", engine)
        if task_id is not None and not await engine.background.stop(task_id):
            return f"{task_id} cannot be stopped alone. Stop the agent that started it."
        return None
    lines = []
    for task in engine.background.tasks:
        about = f"  ({plain_line(task.summary, 200)})" if task.summary else ""
        lines.append(f"  {task.id}  {task.status:<9} {plain_line(task.command, 200)}{about}")
    return "\n".join(lines) or "Nothing runs in the background."
