"""One rule about directories, on the assembled engine: `cd` moves Bash alone, files are named from the project's root,
and the user's own shell has a directory of its own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.support.fakes import collect, only
from tests.support.scripts import call, pause, provider_for, reply

pytestmark = pytest.mark.anyio


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


async def test_a_search_in_one_file_names_it_once(project: Path) -> None:
    grep = call("Grep", pattern="o", path="docs/guide.md", output_mode="content")
    async with engine_in(project, reply(grep), "Done.") as engine:
        assert results(await collect(engine.submit("go"))) == ["docs/guide.md:\n1:one\n2:two note"]


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
