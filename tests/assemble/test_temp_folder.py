"""One temp folder for commands and file tools, in the assembled program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.permission import PermissionMode
from tests.support.contained import Project, no, yes
from tests.support.scripts import call

pytestmark = pytest.mark.anyio

LOOKING = (
    call("Read", file_path="/tmp/agentcli-t/a.txt"),
    call("Grep", pattern="needle", path="/tmp/agentcli-t", output_mode="content"),
    call("Glob", pattern="/tmp/agentcli-t/*.txt"),
)
WRITING = (
    call("Edit", file_path="/tmp/agentcli-t/a.txt", old_string="needle", new_string="thread"),
    call("Write", file_path="/tmp/agentcli-t/b.txt", content="new\n"),
    call("Bash", command="cat /tmp/agentcli-t/a.txt /tmp/agentcli-t/b.txt"),
)
MAKE = call("Bash", command="mkdir -p /tmp/agentcli-t && echo needle > /tmp/agentcli-t/a.txt")


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.DONT_ASK])
async def test_commands_and_tools_share_tmp_without_a_question(contained: Project, mode: PermissionMode) -> None:
    async with contained.session(MAKE, *LOOKING, *WRITING, permission_mode=mode) as session:
        results = await session.run(no)
        assert session.asked == []
        folder = session.engine.session.tool_context.launcher.temp_folder
        assert folder is not None
        assert (folder / "agentcli-t" / "b.txt").exists()
    assert all("needle" in text or "a.txt" in text for text in results[1:4]), results
    assert results[-1] == "thread\nnew"
    assert not Path("/tmp/agentcli-t").exists()
    assert not folder.exists()


async def test_plan_mode_reads_files_written_before_it(contained: Project) -> None:
    async with contained.session(MAKE, *LOOKING, permission_mode=PermissionMode.DEFAULT) as session:
        folder = session.engine.session.tool_context.launcher.temp_folder
        assert folder is not None
        (folder / "agentcli-t").mkdir()
        (folder / "agentcli-t" / "a.txt").write_text("needle\n")
        session.engine.permissions.set_mode(PermissionMode.PLAN)
        results = await session.run(no)
        assert session.asked == []
    assert "Plan mode" in results[0]
    assert all("needle" in text or "a.txt" in text for text in results[1:]), results


async def test_a_link_out_of_the_temp_folder_is_not_followed_without_approval(contained: Project) -> None:
    secret = contained.home / "diary.txt"
    secret.write_text("private\n")
    calls = (
        call("Bash", command=f"ln -s {secret} /tmp/link"),
        call("Read", file_path="/tmp/link"),
        call("Bash", command="cat /tmp/link"),
    )
    async with contained.session(*calls, permission_mode=PermissionMode.DEFAULT) as session:
        await session.run(lambda event: yes(event) if "ln -s" in str(event.input) else no(event))
        assert len(session.asked) == 3


LINK_SPELLINGS = (
    "cat /tmp/l*",
    "cat < /tmp/link",
    "cd /tmp && cat link",
    "cat ../../../../../../tmp/link",
    'for f in /tmp/l*; do cat "$f"; done',
    "find /tmp -type l | xargs cat",
    "find $TMPDIR | xargs cat",
    "find /tmp -type l -exec cat {} +",
    "cat $(find /tmp -type l)",
    "cat $(find $TMPDIR)",
    "cd /tmp && cat $(ls)",
    "cat $(ls /tmp/l*)",
    "cat $TMPDIR/link",
)


async def test_no_spelling_of_a_link_in_the_temp_folder_is_read_without_approval(contained: Project) -> None:
    secret = contained.home / "diary.txt"
    secret.write_text("private\n")
    commands = (f"ln -s {secret} /tmp/link", *LINK_SPELLINGS)
    calls = [call("Bash", command=command) for command in commands]
    async with contained.submissions(*calls, permission_mode=PermissionMode.DEFAULT) as session:
        for number, command in enumerate(commands, 1):
            await session.run(lambda event: yes(event) if "ln -s" in str(event.input) else no(event))
            assert len(session.asked) == number, command
            assert "private" not in session.results[-1], command


async def test_files_in_the_temp_folder_are_read_by_commands_without_a_question(contained: Project) -> None:
    calls = (
        call("Write", file_path="/tmp/notes.txt", content="needle\n"),
        call("Bash", command="cat /tmp/notes.txt /tmp/n*.txt && grep needle < /tmp/notes.txt"),
    )
    async with contained.session(*calls, permission_mode=PermissionMode.DEFAULT) as session:
        await session.run(no)
        assert session.asked == []
        assert session.engine.messages[-2].tool_results[0].text.count("needle") == 3


async def test_an_excluded_command_has_the_machines_temp_folder_and_asks(contained: Project) -> None:
    settings = json.dumps({"sandbox": {"excludedCommands": ["touch"]}})
    options: dict[str, Any] = {"permission_mode": PermissionMode.ACCEPT_EDITS, "settings": settings}
    async with contained.commands("touch /tmp/agentcli-t-excluded", **options) as session:
        await session.run(no)
        assert len(session.asked) == 1


async def test_without_a_sandbox_tmpdir_is_shared_and_removed_with_the_session(contained: Project) -> None:
    calls = (call("Bash", command="echo needle > $TMPDIR/a.txt"), call("Bash", command="echo $TMPDIR"))
    options: dict[str, Any] = {"permission_mode": PermissionMode.DEFAULT, "sandbox": "off"}
    async with contained.session(*calls, **options) as session:
        launcher = session.engine.session.tool_context.launcher
        folder = launcher.temp_folder
        assert folder is not None
        where = (await session.run(no))[-1]
        assert session.asked == []
        assert where == str(folder)
        assert (folder / "a.txt").read_text() == "needle\n"
    assert not folder.exists()


async def test_without_a_sandbox_the_tools_use_tmpdir_without_a_question(contained: Project) -> None:
    options: dict[str, Any] = {"permission_mode": PermissionMode.DEFAULT, "sandbox": "off"}
    session = contained.session(**options)
    async with session:
        context = session.engine.session.tool_context
        folder = context.launcher.temp_folder
        assert folder is not None
        (folder / "a.txt").write_text("needle\n")
        for name, input in (
            ("Read", {"file_path": f"{folder}/a.txt"}),
            ("Write", {"file_path": f"{folder}/b.txt", "content": "x"}),
            ("Grep", {"pattern": "needle", "path": str(folder)}),
        ):
            tool = session.engine.session.own_tools.get(name)
            assert tool is not None
            decision = session.engine.permissions.decide(name, input, tool.needs(input, context), context)
            assert decision.behavior == "allow", (name, decision)
