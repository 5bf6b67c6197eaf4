"""Notices that the model gets beside prompts and results: once per change, derived from the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.attachments.state_notes import Composite, PlanModeNotice, ResumedFolders, TaskListReminder
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments
from agentcli.context.edits import ContextEdit
from agentcli.context.prompt import folder_lines
from agentcli.context.view import ContextView
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.permission import PermissionMode
from agentcli.tools.base import ToolContext

pytestmark = pytest.mark.anyio


def state(*messages: Message) -> LoopState:
    return LoopState(messages, ToolContext(cwd=Path("/work"), working_dirs=(Path("/work"),)))


def prompt(text: str = "go") -> Message:
    return user_message(text, "p", Origin.PROMPT)


def turn(name: str = "Read", id: str = "c", **input: Any) -> tuple[Message, Message]:
    called = Message("assistant", (ToolUseBlock(id, name, input),), "a", Origin.REPLY)
    return called, Message("user", (ToolResultBlock(id, (TextBlock("ok"),)),), "u", Origin.TOOL_RESULTS)


def tasks(*statuses: str) -> tuple[Message, Message]:
    todos: list[Json] = [{"content": f"task {n}", "status": status} for n, status in enumerate(statuses)]
    return turn("TodoWrite", "t", todos=todos)


BOUNDARY = Message("user", (TextBlock("compacted"),), "b", Origin.BOUNDARY)


@pytest.mark.parametrize(
    ("messages", "reminds"),
    [
        ((), False),
        ((prompt(), *turn() * 40), False),
        ((prompt(), *tasks("pending"), *turn() * 14), False),
        ((prompt(), *tasks("pending"), *turn() * 15), True),
        ((prompt(), *tasks("completed"), *turn() * 15), False),
        ((prompt(), *tasks(), *turn() * 15), False),
        ((prompt(), *tasks("in_progress"), BOUNDARY, prompt("summary")), True),
        ((prompt(), BOUNDARY, prompt("summary"), *turn()), False),
        ((prompt(), BOUNDARY, *tasks("in_progress")), False),
    ],
)
async def test_the_task_list_is_sent_again_when_it_has_not_been_used_for_long(
    messages: tuple[Message, ...], reminds: bool
) -> None:
    found = await TaskListReminder(SequentialIds(), ContextView().messages).collect(state(*messages))
    assert bool(found) is reminds


async def test_one_reminder_is_enough_until_the_list_is_stale_again() -> None:
    reminder = TaskListReminder(SequentialIds(), ContextView().messages)
    messages: tuple[Message, ...] = (prompt(), *tasks("completed", "in_progress"), *turn() * 15)
    (shown,) = await reminder.collect(state(*messages))
    assert shown.text.splitlines()[1:] == ["- completed: task 0", "- in_progress: task 1]"]
    assert await reminder.collect(state(*messages, shown, *turn() * 14)) == ()
    assert len(await reminder.collect(state(*messages, shown, *turn() * 15))) == 1


async def test_a_long_list_is_cut() -> None:
    reminder = TaskListReminder(SequentialIds(), ContextView().messages)
    (shown,) = await reminder.collect(state(*tasks(*["pending"] * 90), BOUNDARY))
    assert shown.text.endswith("- and 40 more]")


async def test_plan_mode_is_announced_again_after_a_compaction() -> None:
    notice = PlanModeNotice(lambda: PermissionMode.PLAN, SequentialIds(), ContextView().messages)
    (told,) = await notice.collect(state(prompt()))
    assert await notice.collect(state(prompt(), told, *turn())) == ()
    assert len(await notice.collect(state(prompt(), told, BOUNDARY, prompt("summary")))) == 1


async def test_the_working_directory_is_sent_again_after_a_compaction_but_not_after_its_undo() -> None:
    view = ContextView()
    began, now = Path("/began/here"), Path("/work")
    told, folders = folder_lines(began, (began,)), folder_lines(now, (now,))
    whereabouts = ResumedFolders(told, folders, SequentialIds(), view.messages)
    (first,) = await whereabouts.collect(state(prompt()))
    assert "Working directory: /work" in first.text
    log: tuple[Message, ...] = (prompt(), first, *turn())
    assert await whereabouts.collect(state(*log)) == ()
    log = (*log, BOUNDARY, user_message("so far", "s", Origin.SUMMARY))
    assert len(await whereabouts.collect(state(*log))) == 1
    view.edit([undo()])
    assert await whereabouts.collect(state(*log)) == ()


def undo() -> ContextEdit:
    return ContextEdit(kind="undo_compaction", target="b", through="s", step="compact")


async def test_attachments_keep_their_order() -> None:
    class Says(Attachments):
        def __init__(self, text: str) -> None:
            self.text = text

        async def collect(self, state: LoopState) -> list[Message]:
            return [user_message(self.text, "x", Origin.ATTACHMENT)]

    found = await Composite(Says("one"), Says("two")).collect(state())
    assert [message.text for message in found] == ["one", "two"]
