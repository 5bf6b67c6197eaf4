"""The question of /undo in a real terminal: both versions are shown, and the answer is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.messages import Json
from tests.support.scripts import call, pause, reply, say
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

WRITE = reply(call("Edit", file_path="notes.txt", old_string="two", new_string="TWO"))
READ = reply(call("Read", file_path="notes.txt"))


async def test_the_app_names_a_prompt_that_was_steered_in_undoes_one_sent_later_alone_and_asks_with_both_versions(
    tmp_path: Path,
) -> None:
    def write(name: str) -> Json:
        return call("Write", file_path=name, content="x\n")

    replies = [
        reply(say("Working."), pause(1), write("one.txt")),
        reply(write("two.txt")),
        reply(say("Both are made."), pause(1), say(" Really.")),
        reply(write("three.txt")),
        reply("All three are made."),
        *(READ, WRITE, reply("improved")),
    ]
    arguments = ["--permission-mode", "acceptEdits"]
    async with app_with(tmp_path, *replies, arguments=arguments) as (app, _server):
        await app.ready()
        await app.submit("make one")
        await app.wait_for("Working.")
        await app.submit("make two as well")
        await app.wait_for("Both are made.")
        await app.submit("make three")
        await app.wait_for("All three are made.")
        await app.submit("/undo")
        await app.wait_for("Undid the changes of “make three”: 1 file removed.")
        assert sorted(path.name for path in app.work.glob("*.txt")) == ["one.txt", "two.txt"]
        await app.submit("/undo")
        await app.wait_for("Undid the changes of “make one” and of “make two as well”, sent while it ran: 2 files")
        assert not list(app.work.glob("*.txt"))

        notes = app.work / "notes.txt"
        notes.write_text("one\ntwo\nthree\n")
        await app.submit("improve it")
        await app.wait_for("◆ improved")
        notes.write_text("one\nmine\nthree\n")
        await app.submit("/undo")
        await app.wait_for("Undo: you changed notes.txt too")
        for shown in ("Line 2, as it is now", "- mine", "Before “improve it”", "+ two", "Keep my lines"):
            assert shown in app.text
        await app.answer("r")
        await app.wait_for("1 file restored")
        assert notes.read_text() == "one\ntwo\nthree\n"
        assert await app.leave() == 0
