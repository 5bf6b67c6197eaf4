"""TodoWrite: the task list of a session, written completely each time.

The list is stored only in the calls: `todos_from` finds it in a conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentcli.core.abort import AbortSignal
from agentcli.core.growing import Gathered
from agentcli.core.messages import Json, Message, ToolResultBlock, ToolUseBlock
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import BuiltinTool, object_schema
from agentcli.tools.schema import checked

NAME = "TodoWrite"
STATUSES = ("pending", "in_progress", "completed")
MAX_TODOS = 100
_TODO = object_schema(
    ["content", "status"],
    {
        "content": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What is to be done"},
        "status": {"type": "string", "enum": list(STATUSES)},
        "activeForm": {"type": "string", "maxLength": 500, "description": "Shown while it is done: Running tests"},
    },
)


class TodoWrite(BuiltinTool):
    name = NAME
    needs_conversation = keeps_state = True
    max_repeats = 6  # A task list may be written unchanged.
    input_schema = object_schema(["todos"], {"todos": {"type": "array", "maxItems": MAX_TODOS, "items": _TODO}})

    def title(self, input: Json) -> str:
        return f"Todos: {counted(_listed(input))}"

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        blank = [place for place, todo in enumerate(input["todos"]) if not todo["content"].strip()]
        return f"todos[{blank[0]}].content: must not be blank" if blank else None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        todos = _normal(input["todos"])
        text = "The task list is kept."
        active = [todo["content"] for todo in todos if todo["status"] == "in_progress"]
        if len(active) > 1:
            text += f" {len(active)} tasks are in_progress; keep to one at a time."
        elif not active and any(todo["status"] == "pending" for todo in todos):
            text += " No task is in_progress; mark the one you work on next."
        yield Output(
            text,
            summary=counted(todos),
            display={"kind": "todos", "todos": todos},
            structured={"newTodos": todos},
            todos=todos,
        )


def counted(todos: Sequence[Json]) -> str:
    """Count finished tasks for display: `3 of 7 done`."""
    if not todos:
        return "none"
    done = sum(todo.get("status") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


def todo_line(todo: Json, most: int = 300) -> str:
    """An entry for display, in ASCII."""
    sign = {"completed": "[x]", "in_progress": "[>]"}.get(str(todo.get("status")), "[ ]")
    content = todo.get("content")
    return f"{sign} {plain_line(content if isinstance(content, str) else '', most)}"


def todos_from(messages: Sequence[Message]) -> list[Json]:
    """The task list of the last successful call in a conversation; empty if there was none."""
    return last_list(written_lists().of(messages))


def written_lists() -> Gathered[Message, list[ToolUseBlock]]:
    """The successful calls of a growing conversation; for `last_list`."""

    def add(calls: list[ToolUseBlock], message: Message) -> list[ToolUseBlock]:
        for block in message.content:
            if isinstance(block, ToolUseBlock) and block.name == NAME and block.invalid_json is None:
                calls.append(block)
            elif isinstance(block, ToolResultBlock) and block.is_error and calls:
                calls[:] = [call for call in calls if call.id != block.tool_use_id]
        return calls

    return Gathered(list, add)


def last_list(calls: Sequence[ToolUseBlock]) -> list[Json]:
    for call in reversed(calls):
        input, wrong = checked(TodoWrite.input_schema, call.input)
        if not wrong:
            return _normal(input["todos"])
    return []


def _listed(input: Json) -> list[Json]:
    """The tasks in input that may not have passed its schema."""
    todos: Any = input.get("todos")
    return [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []


def _normal(todos: Sequence[Json]) -> list[Json]:
    """Normalise tasks: one line each, without terminal control characters; equal input gives an equal list."""
    kept: list[Json] = []
    for todo in todos:
        content = plain_line(todo["content"], limit=500)
        active = plain_line(todo.get("activeForm") or "", limit=500)
        kept.append({"content": content, "status": todo["status"], "activeForm": active or content})
    return kept
