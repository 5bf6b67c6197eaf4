"""Snip: only provably superseded content is removed, with a line that says why."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.context.edits import ContextEdit, Edits
from agentcli.context.old_results import (
    CHANGED_AND_READ,
    OLD_PICTURE,
    READ_AGAIN,
    REPEATED,
    WRITTEN_WHOLE,
    Snip,
)
from agentcli.context.steps import ContextState, StepPlan
from agentcli.core.abort import AbortController
from agentcli.core.messages import TextBlock
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.documents.read import Read
from tests.context.logs import PIXEL, Talk, numbered

STATE = ContextState(estimate=1_000, usable=100_000)
NOTHING: dict[str, str] = {}


def planned(talk: Talk, state: ContextState = STATE) -> dict[str, str]:
    """What would be replaced by what, with a whole exchange behind the conversation so far."""
    talk.call("TodoWrite", {}, "ok")
    talk.answer()
    talk.prompt("more")
    plan = Snip().plan(talk.log, state)
    return {} if plan is None else {edit.target: edit.text for edit in plan.edits}


def test_an_older_read_is_removed_when_its_lines_were_read_again() -> None:
    talk = Talk()
    talk.prompt("go")
    part = talk.call("Read", {"file_path": "/a.py", "offset": 10, "limit": 90}, numbered(10, 99))
    other = talk.call("Read", {"file_path": "/b.py"}, numbered(1, 99))
    beyond = talk.call("Read", {"file_path": "/a.py", "offset": 90}, numbered(90, 120) + "\n\n[Encoding: UTF-16.]")
    talk.read_part({"file_path": "/x/../a.py"}, numbered(1, 100) + "\n\n[Partial: lines 1–100 of 900.]")
    assert planned(talk) == {part: READ_AGAIN}, f"not {other} nor {beyond}"


def test_the_whole_file_covers_lines_that_it_no_longer_has() -> None:
    talk = Talk()
    talk.prompt("go")
    old = talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    talk.call("Bash", {"command": "head -40 a.py | sponge a.py"}, "")
    talk.call("Read", {"file_path": "/a.py"}, numbered(1, 40))
    assert planned(talk) == {old: READ_AGAIN}


def test_a_failed_read_supersedes_nothing() -> None:
    talk = Talk()
    talk.prompt("go")
    talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    talk.call("Read", {"file_path": "/a.py"}, "no such file", is_error=True)
    assert planned(talk) == NOTHING


def test_an_older_read_is_removed_after_the_whole_file_was_written() -> None:
    talk = Talk()
    talk.prompt("go")
    old = talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    talk.call("Write", {"file_path": "/a.py", "content": "x"}, "written")
    talk.call("Read", {"file_path": "/b.py"}, numbered(1, 100))
    talk.call("Write", {"file_path": "/b.py", "content": "x"}, "refused", is_error=True)
    assert planned(talk) == {old: WRITTEN_WHOLE}


@pytest.mark.parametrize("name", ["Edit", "MultiEdit"])
def test_an_older_read_of_a_changed_file_is_removed_once_most_of_it_was_read_again(name: str) -> None:
    talk = Talk()
    talk.prompt("go")
    near = talk.call("Read", {"file_path": "/a.py", "offset": 100}, numbered(100, 200))
    talk.read_part({"file_path": "/a.py", "limit": 90}, numbered(1, 90) + "\n\n[Partial: lines 1–90 of 900.]")
    talk.call(name, {"file_path": "/a.py"}, "done")
    talk.read_part({"file_path": "/a.py", "offset": 80}, numbered(80, 190) + "\n\n[Partial: lines 80–190 of 900.]")
    assert planned(talk) == {near: CHANGED_AND_READ}


def test_an_edit_alone_supersedes_no_read() -> None:
    talk = Talk()
    talk.prompt("go")
    talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    talk.call("Edit", {"file_path": "/a.py"}, "done")
    assert planned(talk) == NOTHING


def test_the_same_call_with_the_same_result_is_shown_once() -> None:
    talk = Talk()
    talk.prompt("go")
    first = talk.call("Bash", {"command": "make", "description": "build"}, "warning\n" * 100)
    talk.call("Bash", {"command": "make", "description": "build again", "timeout": None}, "warning\n" * 100)
    talk.call("Bash", {"command": "test"}, "passed\n" * 100)
    talk.call("Bash", {"command": "test"}, "failed\n" * 100)
    talk.call("Bash", {"command": "true"}, "")
    talk.call("Bash", {"command": "true"}, "")
    assert planned(talk) == {first: REPEATED}


def test_a_relative_path_is_another_file_in_another_folder() -> None:
    talk = Talk()
    talk.prompt("go")
    talk.call("Read", {"file_path": "a.py"}, numbered(1, 100))
    talk.call("Bash", {"command": "cd sub && ls"}, "a.py")
    talk.call("Read", {"file_path": "a.py"}, numbered(1, 100, "other"))
    assert planned(talk) == NOTHING


def test_pictures_of_tools_leave_after_some_replies_and_those_of_the_user_stay() -> None:
    talk = Talk()
    talk.prompt("like [Image #1: clipboard.png]", PIXEL)
    shot = talk.call("mcp__browser__shot", {}, (TextBlock("Taken at 10:00"), PIXEL))
    for number in range(7):
        talk.call("Bash", {"command": str(number)}, "ok")
    assert planned(talk) == NOTHING
    talk.call("Bash", {"command": "last"}, "ok")
    assert planned(talk) == {shot: f"Taken at 10:00\n{OLD_PICTURE}"}


def test_the_newest_exchange_and_pinned_content_stay() -> None:
    talk = Talk()
    talk.prompt("go")
    talk.calls(
        ("Read", {"file_path": "/a.py"}, numbered(1, 99), False),
        ("Read", {"file_path": "/a.py"}, numbered(1, 99), False),
    )
    snip = Snip()
    assert snip.plan(talk.log, STATE) is None
    talk.answer()
    talk.prompt("more")
    assert snip.plan(talk.log, STATE) is None, "the answer rests on it"
    talk.call("Bash", {"command": "ls"}, "a.py")
    assert snip.plan(talk.log, ContextState(estimate=1, usable=10, pinned=frozenset(["m2:0"]))) is None
    plan = snip.plan(talk.log, STATE)
    assert plan is not None
    assert [edit.target for edit in plan.edits] == ["m2:0"]


def test_no_note_refers_to_hidden_content_and_nothing_is_decided_twice() -> None:
    talk = Talk()
    talk.prompt("go")
    old = talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    new = talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    talk.call("TodoWrite", {}, "ok")
    edits = Edits()
    edits.add(ContextEdit(kind="drop", target=new, step="user"))
    state = ContextState(estimate=1, usable=10, edited=edits.edited)
    snip = Snip()
    assert snip.plan(talk.log, state) is None
    edits.add(ContextEdit(kind="restore", target=new))
    plan = snip.plan(talk.log, state)
    assert isinstance(plan, StepPlan)
    for edit in plan.edits:
        edits.add(edit)
    assert snip.plan(talk.log, state) is None
    edits.add(ContextEdit(kind="restore", target=old))
    assert snip.plan(talk.log, state) is None, "the user restored it"


def test_another_conversation_is_read_from_the_start() -> None:
    one, other = Talk(), Talk()
    for talk in (one, other):
        talk.prompt("go")
        talk.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    one.call("Read", {"file_path": "/a.py"}, numbered(1, 100))
    one.call("TodoWrite", {}, "ok")
    other.call("TodoWrite", {}, "ok")
    snip = Snip()
    assert snip.plan(one.log, STATE) is not None
    assert snip.plan(other.log, STATE) is None
    assert snip.plan(one.log, STATE) is not None


def test_lines_are_recognised_as_read_shows_them(tmp_path: Path) -> None:
    """Fails when the tool changes its output format."""
    (tmp_path / "long.txt").write_text("".join(f"word {number}\n" for number in range(3_000)))

    async def read(**input: int) -> str:
        context = ToolContext(cwd=tmp_path, working_dirs=(tmp_path,))
        async with aclosing(Read().run({"file_path": "long.txt", **input}, context, AbortController().signal)) as items:
            async for item in items:
                if isinstance(item, Output):
                    assert isinstance(item.content, str)
                    assert item.data == {"partial": True}
                    return item.content
        raise AssertionError

    async def all_of_them() -> tuple[str, str, str]:
        return await read(offset=50, limit=100), await read(), await read(offset=1_990, limit=20)

    part, beginning, end = asyncio.run(all_of_them())
    talk = Talk()
    talk.prompt("go")
    covered = talk.read_part({"file_path": "/long.txt", "offset": 50, "limit": 100}, part)
    talk.read_part({"file_path": "/long.txt", "offset": 1_990, "limit": 20}, end)
    talk.read_part({"file_path": "/long.txt"}, beginning)
    assert planned(talk) == {covered: READ_AGAIN}
