"""Rewinding in the real program: Esc Esc in the app, numbers in plain mode and in a run without a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from tests.e2e.program import Program
from tests.e2e.test_plain import PLAIN, leave, prompted
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with
from tests.workspace.folders import state_of

pytestmark = pytest.mark.anyio

EDITS = ["--permission-mode", "acceptEdits"]


def work() -> list[Json | str]:
    edit = call("Edit", file_path="notes.txt", old_string="two", new_string="TWO")
    return [
        *(reply(call("Write", file_path="notes.txt", content="one\ntwo\n")), reply("first is done")),
        *(reply(edit, call("Write", file_path="more.txt", content="x\n")), reply("second is done")),
    ]


def said(server: LoopbackServer) -> str:
    return json.dumps(server.bodies[-1]["messages"], ensure_ascii=False)


async def test_esc_twice_rewinds_conversation_and_files_and_undo_returns_with_the_draft(tmp_path: Path) -> None:
    replies = [*work(), "another second", "gone on"]
    async with app_with(tmp_path, *replies, arguments=EDITS, rows=40) as (app, server):
        await app.ready()
        await app.submit("write notes")
        await app.wait_for("◆ first is done")
        first = state_of(app.work)
        await app.submit("improve them")
        await app.wait_for("◆ second is done")
        await app.wait_for(lambda: app.text.count("✓ 2 turns") == 2)
        second = state_of(app.work)

        await app.press("escape", "escape")
        await app.wait_for("2 files +2 −1")
        await app.press("tab", "tab")
        await app.wait_for("Going back to before this prompt would now change")
        await app.wait_for("more.txt")
        await app.press("enter")
        await app.wait_for("Go back to before “improve them”?")
        await app.wait_for("Conversation only")
        await app.press("enter")
        await app.wait_for("The conversation continues before “improve them”")
        await app.wait_for(lambda: app.box == "improve them")
        assert state_of(app.work) == first

        # The text in the box is not lost when another prompt comes in its place.
        await app.type(" now")
        await app.press("ctrl+p")
        await app.wait_for("Commands")
        await app.type("rewind")
        await app.press("enter")
        await app.wait_for("go before it")
        await app.press("enter")
        await app.wait_for("Conversation only")
        await app.press("down", "enter")
        await app.wait_for("Your unsent text is in the history")
        assert app.box == "write notes"
        await app.press("up")
        await app.wait_for(lambda: app.box == "improve them now")
        await app.press("ctrl+u")
        await app.submit("/rewind undo")
        await app.wait_for("where it was before the last rewind")
        await app.submit("improve them differently")
        await app.wait_for("◆ another second")
        assert "first is done" in said(server)
        assert "second is done" not in said(server)
        assert server.bodies[-1]["system"] == server.bodies[0]["system"]

        # The branch that was left is still there, with its files.
        await app.submit("/tree 2")
        await app.wait_for("Continue after it")
        await app.press("enter")
        await app.wait_for("Should the files go back too?")
        await app.press("enter")
        await app.wait_for("The conversation continues after “improve them”")
        assert state_of(app.work) == second
        await app.submit("go on")
        await app.wait_for("◆ gone on")
        assert "second is done" in said(server)
        assert "another second" not in said(server)
        assert await app.leave() == 0


async def test_lines_of_the_user_are_asked_about_outside_of_a_submission(tmp_path: Path) -> None:
    async with app_with(tmp_path, *work(), arguments=EDITS, rows=40) as (app, _server):
        await app.ready()
        for prompt, answer in (("write notes", "first"), ("improve them", "second")):
            await app.submit(prompt)
            await app.wait_for(f"◆ {answer} is done")
        notes = app.work / "notes.txt"
        notes.write_text("one\nmine\n")
        await app.submit("/rewind 2 files")
        await app.wait_for("you are asked about your own changes in notes.txt")
        await app.press("enter")
        await app.wait_for("Rewind: you changed notes.txt too")
        await app.answer("r")
        await app.wait_for("Files as they were before “improve them”")
        assert notes.read_text() == "one\ntwo\n"
        assert await app.leave() == 0


async def test_plain_mode_prints_numbers_and_the_difference_and_asks(tmp_path: Path) -> None:
    async with app_with(tmp_path, *work(), arguments=[*PLAIN, "--allowedTools", "Write,Edit"], rows=60) as (
        app,
        _server,
    ):
        for prompt, answer in (("write notes", "first"), ("improve them", "second")):
            await prompted(app)
            await app.submit(prompt)
            await app.wait_for(f"{answer} is done")
        await prompted(app)
        await app.submit("/rewind")
        await app.wait_for("2  improve them")
        await app.wait_for("2 files +2 −1")
        await prompted(app)
        await app.submit("/rewind 2")
        await app.wait_for("-TWO")
        await app.wait_for("Which one")
        await app.submit("1")
        await app.wait_for("The conversation continues before “improve them”")
        await app.wait_for(lambda: app.text.rstrip().endswith("❯ improve them"))
        assert (app.work / "notes.txt").read_text() == "one\ntwo\n"
        await app.press("ctrl+u")
        await app.submit("/rewind undo")
        await app.wait_for("where it was before the last rewind")
        await app.wait_for(lambda: (app.work / "notes.txt").read_text() == "one\nTWO\n")
        await prompted(app)
        assert await leave(app) == 0


async def test_a_run_without_a_user_lists_prompts_and_restores_files(program: Program) -> None:
    async with LoopbackServer(*work()) as server:
        program.talk_to(server.url)
        for words in (("write notes",), ("-c", "improve them")):
            assert (await program.run("-p", *words, *EDITS)).code == 0
        listed = await program.run("-c", "-p", "/rewind")
        assert "2  improve them\n   2 files +2 −1" in listed.out
        done = await program.run("-c", "-p", "/rewind 2 files")
        assert (done.code, "1 file restored, 1 file removed" in done.out) == (0, True), done
        refused = await program.run("-c", "-p", "/rewind 1 both")
        assert refused.code != 0
        assert "not available here" in refused.err + refused.out
