"""Snip: only provably superseded content is removed, with a line that says why."""

from __future__ import annotations

from agentcli.context.edits import ContextEdit, Edits
from agentcli.context.old_results import (
    OLD_PICTURE,
    READ_AGAIN,
    REPEATED,
    WRITTEN_WHOLE,
    Snip,
)
from agentcli.context.steps import ContextState, StepPlan
from agentcli.core.messages import TextBlock
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
