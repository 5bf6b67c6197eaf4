"""/todos: show the model's todo list."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.tools.planning.todowrite import todo_line

MANUAL = Manual(
    "The model keeps a list of todos for longer work. Ctrl+T also shows it.",
    (("/todos", "show completed and open todos"),),
)


async def run(engine: Engine, _arguments: str) -> str:
    todos = engine.todos
    if not todos:
        return "There are no todos."
    done = sum(1 for todo in todos if todo.get("status") == "completed")
    return "\n".join([f"{done} of {len(todos)} done:", *(f"  {todo_line(todo)}" for todo in todos)])
