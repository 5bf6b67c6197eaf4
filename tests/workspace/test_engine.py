"""Undo through the engine: snapshots before calls that may write, and the notice to the model."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import Json, Origin
from tests.support.assembled import engine_on
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply
from tests.workspace.folders import state_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def writes(text: str) -> Json:
    return reply(call("Write", file_path="new.txt", content=text))


async def test_the_engine_undoes_changes_of_tools_and_commands_and_notifies_the_model(project: Path) -> None:
    before = state_of(project)
    replies: list[Json | str] = [
        reply(call("Read", file_path="a.txt")),
        reply(
            call("Edit", file_path="a.txt", old_string="one", new_string="two"),
            call("Bash", command="mkdir -p d && cp a.txt d/b.txt && chmod +x d/b.txt"),
        ),
        "Done.",
        "I see.",
    ]
    async with engine_on(project, *replies) as engine:
        await collect(engine.submit("go"))
        assert (project / "d" / "b.txt").read_text() == "two\n"
        assert [(Path(c.path).name, c.kind) for c in await engine.files.changes()] == [
            ("a.txt", "modified"),
            ("b.txt", "added"),
        ]
        assert "+two\n" in (await engine.files.diff("prompt")).folders[0].text
        report = await engine.files.undo()
        assert report.done
        assert state_of(project) == before
        events = await collect(engine.submit("go on"))
        note = only(events, ev.MessageAppended)[0].message
        assert note.origin is Origin.ATTACHMENT
        assert "The user undid the changes" in note.text
        assert str(project / "a.txt") in note.text
        assert (await engine.files.redo()).done
        assert (project / "a.txt").read_text() == "two\n"


async def test_after_an_undo_a_file_has_to_be_read_again_before_it_is_edited(project: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    replies: list[Json | str] = [reply(call("Read", file_path="a.txt")), reply(edit), "Done.", reply(edit), "Done."]
    async with engine_on(project, *replies) as engine:
        await collect(engine.submit("go"))
        await engine.files.undo()
        events = await collect(engine.submit("again"))
    assert only(events, ev.ToolFinished)[0].result.is_error
    assert (project / "a.txt").read_text() == "one\n"


async def test_a_fork_can_undo_earlier_prompts_without_affecting_the_other_session(project: Path) -> None:
    async with engine_on(project, writes("x"), "Done.") as engine:
        await collect(engine.submit("go"))
        session = engine.session_id
    async with engine_on(project, resume=session, fork_session=True) as engine:
        assert engine.session_id != session
        assert (await engine.files.undo()).deleted == (str(project / "new.txt"),)
        assert (await engine.files.redo()).done
    async with engine_on(project, resume=session) as engine:
        assert (await engine.files.undo()).deleted == (str(project / "new.txt"),)


async def test_a_submission_that_was_aborted_can_be_undone(project: Path) -> None:
    async with engine_on(project, writes("x"), reply(call("Bash", command="echo y > y.txt; sleep 60"))) as engine:
        events = engine.submit("go")
        async for event in events:
            if isinstance(event, ev.ToolStarted) and event.name == "Bash":
                engine.abort()
        assert (await engine.files.undo()).done
    assert sorted(path.name for path in project.iterdir()) == ["a.txt"]


async def test_an_abort_does_not_wait_for_a_slow_snapshot(project: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    os.mkfifo(tmp_path / "begun")
    (slow / "git").write_text(f"#!/bin/sh\necho x > {tmp_path}/begun\nexec sleep 60\n")
    (slow / "git").chmod(0o755)
    environ = {"PATH": f"{slow}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    async with engine_on(project, writes("x"), environ=environ) as engine:
        work = asyncio.create_task(collect(engine.submit("go")))
        await asyncio.to_thread((tmp_path / "begun").read_text)
        engine.abort()
        async with asyncio.timeout(5):
            assert result_of(await work).terminal == "aborted_tools"
    assert not (project / "new.txt").exists()


async def test_a_consumer_that_leaves_in_the_middle_loses_no_undo(project: Path) -> None:
    async with engine_on(project, writes("x"), "Done.") as engine:
        events = engine.submit("go")
        async for event in events:
            if isinstance(event, ev.ToolFinished):
                break
        await events.aclose()
        assert (await engine.files.undo()).deleted == (str(project / "new.txt"),)


async def test_a_conversation_that_changes_nothing_keeps_no_copies(project: Path) -> None:
    async with engine_on(project, reply(call("Read", file_path="a.txt")), "Done.") as engine:
        await collect(engine.submit("go"))
    assert not list(project.parent.rglob("snapshots"))


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ({"settings": '{"undo": false, "sandbox": {"mode": "off"}}'}, "setting is off"),
        ({"persist": False}, "this session is not saved"),
    ],
)
async def test_without_copies_undo_reports_the_reason(project: Path, rest: dict[str, object], reason: str) -> None:
    async with engine_on(project, writes("x"), "Done.", **rest) as engine:
        result_of(await collect(engine.submit("go")))
        report = await engine.files.undo()
    assert not report.done
    assert reason in report.text
    assert (project / "new.txt").exists()


async def test_a_snapshot_that_fails_is_a_notice_and_the_tool_runs(project: Path) -> None:
    environ = {"PATH": str(project.parent / "nowhere"), "HOME": str(project.parent)}
    async with engine_on(project, writes("x"), "Done.", environ=environ) as engine:
        events = await collect(engine.submit("go"))
    notices = [event for event in only(events, ev.NoticeRaised) if event.code == "undo"]
    assert [notice.text for notice in notices] == [
        f"Changes in {project} cannot be undone: git was not found; install it to use undo."
    ]
    assert not result_of(events).is_error
    assert (project / "new.txt").exists()
