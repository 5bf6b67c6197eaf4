"""Messages to the model about stopped commands, plan mode and unread files."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import wrap_error
from agentcli.core.permission import PermissionMode
from tests.support.assembled import Assembled
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


async def stopped(project: Path, command: str, reason: AbortReason, *, when: type[ev.Event]) -> list[str]:
    """The results of a reply whose first call is stopped at an event."""
    calls = reply(call("Bash", command=command), call("Bash", command="touch never"))
    async with Assembled(project, [calls], options={"permission_mode": PermissionMode.BYPASS}) as session:
        async with asyncio.timeout(20), aclosing(session.engine.submit("go")) as stream:
            async for event in stream:
                if isinstance(event, when):
                    session.engine.abort(reason)
        assert not (project / "never").exists()
        return session.results


@pytest.mark.parametrize(
    ("reason", "who", "after"),
    [
        (AbortReason.USER_CANCEL, "The user stopped this command", "The user interrupted"),
        (
            AbortReason.INTERRUPT,
            "The user stopped this command with a new prompt",
            "The user interrupted with a new prompt",
        ),
    ],
)
async def test_a_stopped_command_names_who_stopped_it_and_its_output_so_far(
    project: Path, reason: AbortReason, who: str, after: str
) -> None:
    silent, second = await stopped(project, "sleep 30", reason, when=ev.ToolStarted)
    assert silent == wrap_error(f"{who}; it had printed nothing.")
    assert second == f"<tool_use_error>{after} before this call ran.</tool_use_error>"
    spoken, _second = await stopped(project, "echo begun; sleep 30", reason, when=ev.ToolProgressed)
    assert spoken == wrap_error(f"begun\n\n{who}; its output so far is above."), "bash's own report is left out"
    own = "trap 'echo Terminated by me; exit' TERM; echo begun; sleep 30"
    spoken, _second = await stopped(project, own, reason, when=ev.ToolProgressed)
    assert spoken == wrap_error(f"begun\nTerminated by me\n\n{who}; its output so far is above.")


async def test_an_unread_file_error_names_the_missing_read_even_after_other_tools_and_an_undo(project: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    replies = [
        reply(call("Bash", command="cat a.txt")),
        reply(call("Grep", pattern="one", output_mode="content")),
        reply(edit),
        reply(call("Write", file_path="a.txt", content="x\n")),
        reply(call("Read", file_path="a.txt")),
        reply(edit),
        "Done.",
        reply(call("Edit", file_path="a.txt", old_string="one", new_string="three")),
        "Done.",
    ]
    options = {"permission_mode": PermissionMode.ACCEPT_EDITS}
    async with Assembled(project, replies, options=options) as session:
        await session.run()
        assert session.results[2] == wrap_error(
            "a.txt exists, and it was not read, or it changed since it was read. Read it, or the part to change, "
            "then try again. What Grep or a command printed does not count."
        )
        assert "Read all of it, then try again." in session.results[3]
        assert (project / "a.txt").read_text() == "two\n"
        await session.engine.files.undo()
        assert (project / "a.txt").read_text() == "one\n"
        await session.run("again")
        assert "it was not read, or it changed since it was read" in session.results[-1]


async def test_a_compaction_does_not_make_a_read_file_unread(project: Path) -> None:
    long = "Part of a long story. " * 900
    replies = [
        reply(call("Read", file_path="a.txt")),
        long,
        long,
        "A summary.",
        reply(call("Edit", file_path="a.txt", old_string="one", new_string="two")),
        "Done.",
    ]
    options = {"permission_mode": PermissionMode.ACCEPT_EDITS}
    async with Assembled(project, replies, options=options) as session:
        await session.run()
        await session.run("go on")
        await session.follow(session.engine.compact())
        await session.run("change it")
    assert (project / "a.txt").read_text() == "two\n"
