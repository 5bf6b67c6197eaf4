"""One temp folder for commands and file tools, in the assembled program."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.assemble.environment import memory_folder
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.support.contained import Project, no, yes
from tests.support.fakes import collect, only
from tests.support.scripts import call, pause, provider_for, reply

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


async def test_commands_can_read_notes_but_not_write_them(contained: Project) -> None:
    state = contained.home / ".local" / "state" / "agentcli"
    notes, others = memory_folder(state, contained.path), state / "memory" / "another-project"
    for folder in (notes, others):
        folder.mkdir(parents=True)
        (folder / "MEMORY.md").write_text("- here\n")
    commands = (
        f"cat {notes}/MEMORY.md",
        f"python3 -c \"open('{notes}'+'/MEMORY.md', 'a').write('x')\"",
        f"python3 -c \"print(open('{others}'+'/MEMORY.md').read())\"",
    )
    async with contained.commands(*commands) as session:
        shown = await session.run()
    assert shown[0] == "- here"
    assert "here" not in shown[2]
    assert (notes / "MEMORY.md").read_text() == "- here\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "note.txt").write_text("note of the root\n")
    (root / "docs" / "note.txt").write_text("note of docs\n")
    (root / "docs" / "guide.md").write_text("one\ntwo note\n")
    return root


def engine_in(root: Path, *replies: Json | str, **rest: object) -> Engine:
    options: dict[str, object] = {
        "cwd": root,
        "environ": {"PATH": os.environ["PATH"], "HOME": str(root.parent)},
        "provider": provider_for(*replies),
        "permission_mode": PermissionMode.BYPASS,
        "settings": '{"sandbox": {"mode": "off"}}',
        **rest,
    }
    return build_engine(Options(**options))  # type: ignore[arg-type]


def results(events: list[ev.Event]) -> list[str]:
    return [event.result.text for event in only(events, ev.ToolResultAdded)]


async def test_cd_moves_bash_and_no_other_tool(project: Path) -> None:
    replies = [
        reply(call("Bash", command="cd docs")),
        reply(
            call("Bash", command="pwd"),
            call("Read", file_path="note.txt"),
            call("Glob", pattern="*.md"),
            call("Grep", pattern="note of", output_mode="content"),
            call("Write", file_path="new.txt", content="x"),
        ),
        "Done.",
    ]
    async with engine_in(project, *replies) as engine:
        moved, where, read, found, grep, _written = results(await collect(engine.submit("go")))
        assert (engine.cwd, engine.root) == (project / "docs", project)
    assert f"The working directory of Bash is now {project}/docs." in moved
    assert where == f"{project}/docs", "no second word about a directory that is still the same"
    assert "note of the root" in read
    assert found == f"docs/guide.md\n\n[Searched {project}.]"
    assert grep == f"docs/note.txt:1:note of docs\nnote.txt:1:note of the root\n\n[Searched {project}.]"
    assert (project / "new.txt").read_text() == "x"
    assert not (project / "docs" / "new.txt").exists()


async def test_parallel_calls_do_not_change_each_others_directory(project: Path) -> None:
    """The first `cd` ends long before the last calls begin: the reply still streams."""
    batch = reply(
        call("Bash", command="cd docs && ls"),
        pause(0.4),
        call("Bash", command="pwd"),
        call("Bash", command="cd docs/deep && pwd"),
        call("Bash", command="pwd"),
    )
    async with engine_in(project, batch, reply(call("Bash", command="pwd")), "Done.") as engine:
        _first, second, third, fourth, after = results(await collect(engine.submit("go")))
    assert (second, fourth) == (str(project), str(project))
    assert third.startswith(f"{project}/docs/deep\n")
    assert after == f"{project}/docs/deep", "the last one in the order of the calls holds"


async def test_after_its_directory_is_removed_the_shell_returns_to_the_root(project: Path) -> None:
    replies = [
        reply(call("Bash", command="mkdir away && cd away")),
        "Done.",
        reply(call("Bash", command="pwd")),
        reply(call("Bash", command="pwd")),
        "Done.",
    ]
    async with engine_in(project, *replies) as engine:
        await collect(engine.submit("go"))
        (project / "away").rmdir()
        gone, again = results(await collect(engine.submit("and?")))
    assert gone.startswith(
        f"<tool_use_error>The working directory of Bash, {project}/away, is gone, so the command was not run."
    )
    assert again == str(project)


async def test_rules_apply_to_the_file_that_the_tool_opens(project: Path) -> None:
    """A rule for docs/note.txt matches that file after a `cd docs` too, and no other."""
    replies = [
        reply(call("Bash", command="cd docs")),
        reply(call("Read", file_path="note.txt"), call("Read", file_path="docs/note.txt")),
        reply(call("Bash", command="cat note.txt")),
        "Done.",
    ]
    rest = {"permission_mode": PermissionMode.DEFAULT, "disallowed_tools": ("Read(docs/note.txt)",)}
    async with engine_in(project, *replies, **rest) as engine:
        _moved, allowed, denied, shell = results(await collect(engine.submit("go")))
    assert "note of the root" in allowed
    assert "note of docs" not in denied + shell, "for a command the same name is the file in its own directory"


async def test_the_directory_of_bash_is_the_same_after_a_resume(project: Path) -> None:
    async with engine_in(project, reply(call("Bash", command="cd docs")), "Done.") as engine:
        await collect(engine.submit("go"))
    async with engine_in(project, reply(call("Bash", command="pwd")), "Done.", continue_latest=True) as engine:
        assert results(await collect(engine.submit("and?"))) == [f"{project}/docs"]


async def test_the_users_shell_has_its_own_directory_and_shows_it(project: Path) -> None:
    replies = [reply(call("Bash", command="cd docs/deep; pwd")), reply(call("Bash", command="pwd")), "Done.", "I see."]
    async with engine_in(project, *replies) as engine:
        (moved,) = only(await collect(engine.shell("cd docs")), ev.ToolFinished)
        assert f"The working directory of ! commands is now {project}/docs." in moved.result.text
        inside, after = results(await collect(engine.submit("go")))
        assert inside.startswith(f"{project}/docs/deep\n")
        assert after == f"{project}/docs/deep"
        events = await collect(engine.shell("pwd"))
        assert only(events, ev.ToolStarted)[0].title == "! pwd (in docs)"
        assert only(events, ev.ToolFinished)[0].result.text == f"{project}/docs"
        assert engine.user_shell.cwd == project / "docs"
        await collect(engine.submit("and now?"))
        assert any("in their own shell (in docs): pwd" in message.text for message in engine.messages)


# ------------------------------------------------------------------------------------------------------- one file


# ----------------------------------------------------------------------------------------------- beside the model


async def test_a_shell_line_runs_while_the_model_works_and_is_reported_with_the_next_results(project: Path) -> None:
    waits = "while ! [ -e ready ]; do sleep 0.01; done; echo went"
    replies = [reply(call("Bash", command=waits)), "Done."]
    async with engine_in(project, *replies) as engine:
        work = asyncio.get_running_loop().create_task(collect(engine.submit("go")))
        while not engine.session.is_model_working:
            await asyncio.sleep(0)
        events = await collect(engine.shell("echo by the user; touch ready"))
        assert not only(events, ev.Result), "the submission that runs has the one Result"
        assert only(events, ev.ToolFinished)[0].result.text == "by the user"
        done = await work
    assert len(only(done, ev.Result)) == 1
    texts = [message.text for message in engine.messages]
    told = next(place for place, text in enumerate(texts) if "by the user" in text)
    assert told < len(texts) - 1, "the model's last reply comes after it"


async def test_the_users_commands_run_one_after_the_other_and_can_be_stopped(project: Path) -> None:
    async with engine_in(project, reply(pause(60), "late"), "Done.") as engine:
        work = asyncio.get_running_loop().create_task(collect(engine.submit("go")))
        while not engine.session.is_model_working:
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        first = loop.create_task(collect(engine.shell("cd docs; touch begun; sleep 60")))
        while not (project / "docs" / "begun").exists():
            await asyncio.sleep(0.01)
        second = loop.create_task(collect(engine.shell("pwd")))
        await asyncio.sleep(0)
        assert engine.user_shell.stop()
        assert only(await first, ev.ToolFinished)[0].result.is_error
        assert await second == [], "it had not begun"
        assert not work.done(), "the model's work goes on"
        engine.abort()
        await work
