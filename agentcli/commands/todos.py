"""/todos: the task list as the model last wrote it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.core.events import Event
from agentcli.tools.planning.todowrite import todo_line

MANUAL = Manual(
    "The model keeps a task list for longer work. Ctrl+T also shows it.", (("/todos", "show completed and open tasks"),)
)


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    todos = engine.todos
    if not todos:
        yield say("The task list is empty.")
        return
    done = sum(1 for todo in todos if todo.get("status") == "completed")
    lines = [f"{done} of {len(todos)} done:"]
    yield say("\n".join([*lines, *(f"  {todo_line(todo)}" for todo in todos)]))
