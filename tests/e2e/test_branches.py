"""Switching between the branches of a session in the real program, in the app and in plain mode."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from tests.e2e.test_plain import PLAIN, asked, leave, prompted
from tests.support.scripts import call, pause, reply, say
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio
needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.mark.parametrize("plain", [True, False])
async def test_a_summary_of_what_is_left_is_written_and_sent_with_the_next_prompt(tmp_path: Path, plain: bool) -> None:
    replies = ("First answer.", "Second answer.", "They counted sheep.", "Third answer.")
    async with app_with(tmp_path, *replies, arguments=PLAIN if plain else []) as (app, server):
        for prompt, answer in (("begin", "First answer."), ("count", "Second answer.")):
            if plain:
                await prompted(app)
            await app.submit(prompt)
            await app.wait_for(answer)
        await app.submit("/tree 1")
        await app.wait_for("with a summary of what you leave")
        if plain:
            await asked(app, "Which one (a number, or Enter for none):")
            await app.submit("2")
        else:
            await app.press("down", "enter")
        await app.wait_for("Summary of what you left, for the model")
        await app.wait_for("The model gets the summary with your next prompt.")
        if plain:
            await prompted(app)
        await app.submit("go on")
        await app.wait_for("Third answer.")
        sent = str(server.bodies[-1]["messages"])
        assert sent.count("They counted sheep.") == 1
        assert "Second answer." not in sent
        if plain:
            assert await leave(app) == 0


async def test_esc_switches_without_the_summary(tmp_path: Path) -> None:
    replies = ("First answer.", "Second answer.", reply(say("They "), pause(60)))
    async with app_with(tmp_path, *replies) as (app, server):
        for prompt, answer in (("begin", "First answer."), ("count", "Second answer.")):
            await app.submit(prompt)
            await app.wait_for(answer)
        await app.submit("/tree 1")
        await app.wait_for("with a summary of what you leave")
        await app.press("down", "enter")
        await app.wait_for("Esc switches without a summary")
        await app.wait_for(lambda: len(server.bodies) == 3)
        await app.press("escape")
        await app.wait_for("There is no summary: it was stopped.")
        await app.wait_for(lambda: "Second answer." not in app.text)


def what_if_replies(*other: Json | str) -> tuple[Json | str, ...]:
    read = reply(call("Read", file_path="calc.txt"))
    change = call("Edit", file_path="calc.txt", old_string="right", new_string="wrong")
    return ("Hello.", read, reply(change), "Present done.", read, *other)


async def begun(app: TerminalProgram, *, plain: bool) -> None:
    (app.work / "calc.txt").write_text("right\n")
    for prompt, answer in (("begin", "Hello."), ("change it", "Present done.")):
        if plain:
            await prompted(app)
        await app.submit(prompt)
        await app.wait_for(answer)
    # A what-if waits for nothing.
    await (prompted(app) if plain else app.wait_for("3 turns"))


async def run_it(app: TerminalProgram, *, plain: bool) -> None:
    """Confirm the question before a what-if."""
    if plain:
        await asked(app, "Which one (a number, or Enter for none):")
        await app.submit("1")
    else:
        await app.wait_for("Hooks, MCP servers")
        await app.press("enter")


def made(app: TerminalProgram) -> dict[str, str]:
    """The files of the project."""
    return {path.name: path.read_text() for path in app.work.iterdir() if path.is_file()}


def processes_with(arguments: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(process.read_text(errors="replace"))
    return [line for line in found if arguments in line]


@needs_sandbox
@pytest.mark.parametrize("plain", [True, False])
async def test_a_what_if_is_compared_taken_and_undone(tmp_path: Path, plain: bool) -> None:
    better = call("Edit", file_path="calc.txt", old_string="right", new_string="best")
    other = (reply(better), reply(call("Bash", command="cp calc.txt copied.txt; ls")), "Other done.")
    arguments = ["--sandbox", "on", "--trust", "--allowed-tools", "Bash,Edit"]
    async with app_with(tmp_path, *what_if_replies(*other), arguments=[*(PLAIN if plain else ()), *arguments]) as (
        app,
        server,
    ):
        await begun(app, plain=plain)
        present = made(app)
        assert present["calc.txt"] == "wrong\n"
        await app.submit("/what-if haiku")
        await run_it(app, plain=plain)
        if plain:
            await app.wait_for("Which result:")
            await asked(app, "Which one (a number, or Enter for none):")
            await app.submit("2")
        else:
            await app.wait_for("[Comparison]")
            await app.wait_for("Other done.")
            await app.wait_for("haiku")
            assert made(app) == present
            await app.press("enter")
        await app.wait_for("/undo only the files")
        assert made(app) == {**present, "calc.txt": "best\n", "copied.txt": "best\n"}
        assert server.bodies[-1]["model"].startswith("claude-haiku")
        if plain:
            await prompted(app)
        await app.submit("/undo")
        await app.wait_for("Undid the changes of “change it”")
        assert made(app) == present


@needs_sandbox
async def test_esc_ends_a_what_if_with_its_command_and_its_copies(tmp_path: Path) -> None:
    running = reply(call("Bash", command="touch started; sleep 987"))
    temp = tmp_path / "tmp"
    temp.mkdir()
    arguments = ["--sandbox", "on", "--trust", "--allowed-tools", "Bash,Edit"]
    environ = {"TMPDIR": str(temp)}
    async with app_with(tmp_path, *what_if_replies(running), arguments=arguments, environ=environ) as (app, _server):
        await begun(app, plain=False)
        present = made(app)
        await app.submit("/what-if haiku")
        await run_it(app, plain=False)
        await app.wait_for(lambda: any(temp.rglob("started")))
        assert made(app) == present
        await app.press("escape")
        await app.wait_for("The what-if was stopped. Nothing was changed.")
        assert made(app) == present
        assert not any(temp.rglob("started"))
        assert not any(temp.rglob("copies"))
        assert not processes_with("sleep\0987")
