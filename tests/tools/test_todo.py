"""The task list: what the model writes, what the user sees, and how it is found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.tools.planning import TodoWrite, count_done, todos_from
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.anyio


def todo(content: str, status: str = "pending", **rest: Any) -> Json:
    return {"content": content, "status": status, **rest}


async def test_the_whole_list_comes_back_in_every_form(tmp_path: Path) -> None:
    given = [todo("Read", "completed"), todo("Write", "in_progress", activeForm="Writing"), todo("Test")]
    output = await run(TodoWrite(), context_in(tmp_path), todos=given)
    kept = [
        {"content": "Read", "status": "completed", "activeForm": "Read"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
        {"content": "Test", "status": "pending", "activeForm": "Test"},
    ]
    assert output.todos == kept
    assert output.display == {"kind": "todos", "todos": kept}
    assert output.structured == {"newTodos": kept}
    assert output.summary == "1 of 3 done"
    assert not output.is_error


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        (["in_progress", "in_progress"], "2 tasks are in_progress; keep to one"),
        (["pending", "completed"], "No task is in_progress"),
        (["completed"], "The task list is kept."),
        (["in_progress", "pending"], "The task list is kept."),
        ([], "The task list is kept."),
    ],
)
async def test_an_unusual_list_is_accepted_with_a_note(tmp_path: Path, statuses: list[str], says: str) -> None:
    output = await run(TodoWrite(), context_in(tmp_path), todos=[todo(f"t{n}", s) for n, s in enumerate(statuses)])
    assert says in text_of(output)
    assert not output.is_error
    assert output.todos is not None


def test_it_needs_no_permission_and_has_a_title_for_any_input(tmp_path: Path) -> None:
    tool = TodoWrite()
    assert tool.needs({"todos": []}, context_in(tmp_path)) == ()
    assert tool.is_safe({"todos": []})
    assert tool.title({"todos": [todo("x", "completed"), todo("y")]}) == "Todos: 1 of 2 done"
    for odd in ({}, {"todos": 5}, {"todos": [1, None]}):
        assert tool.title(odd) == "Todos: none"
    assert count_done([]) == "none"


def conversation(*calls: tuple[str, Any, bool]) -> list[Message]:
    messages: list[Message] = []
    for number, (name, input, is_error) in enumerate(calls):
        id = f"call_{number}"
        messages.append(Message("assistant", (ToolUseBlock(id, name, input),), f"a{number}", Origin.REPLY))
        result = ToolResultBlock(id, (TextBlock("x"),), is_error)
        messages.append(Message("user", (result,), f"u{number}", Origin.TOOL_RESULTS))
    return messages


def test_the_last_valid_list_of_a_conversation_counts() -> None:
    first, second = {"todos": [todo("one")]}, {"todos": [todo("two", "completed")]}
    names = lambda messages: [item["content"] for item in todos_from(messages)]  # noqa: E731
    assert names([]) == []
    assert names(conversation(("Read", {}, False))) == []
    assert names(conversation(("TodoWrite", first, False), ("Read", {}, False))) == ["one"]
    assert names(conversation(("TodoWrite", first, False), ("TodoWrite", second, False))) == ["two"]
    assert names(conversation(("TodoWrite", first, False), ("TodoWrite", second, True))) == ["one"]
    assert names(conversation(("TodoWrite", first, False), ("TodoWrite", {"todos": "x"}, False))) == ["one"]
    assert names(conversation(("TodoWrite", first, False), ("TodoWrite", {"todos": []}, False))) == []
