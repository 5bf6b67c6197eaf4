"""The question of /undo in a real terminal: both versions are shown, and the answer is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_plain import PLAIN, asked, leave, prompted
from tests.support.scripts import call, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

WRITE = reply(call("Edit", file_path="notes.txt", old_string="two", new_string="TWO"))
READ = reply(call("Read", file_path="notes.txt"))


async def test_the_app_asks_with_both_versions(tmp_path: Path) -> None:
    arguments = ["--permission-mode", "acceptEdits"]
    async with app_with(tmp_path, READ, WRITE, reply("improved"), arguments=arguments) as (app, _server):
        notes = app.work / "notes.txt"
        notes.write_text("one\ntwo\nthree\n")
        await app.ready()
        await app.submit("improve it")
        await app.wait_for("improved")
        notes.write_text("one\nmine\nthree\n")
        await app.submit("/undo")
        await app.wait_for("Undo: you changed notes.txt too")
        for shown in ("Line 2, as it is now", "- mine", "Before “improve it”", "+ two", "Keep my lines"):
            assert shown in app.text
        await app.answer("r")
        await app.wait_for("1 file restored")
        assert notes.read_text() == "one\ntwo\nthree\n"
        assert await app.leave() == 0


async def test_plain_mode_asks_with_both_versions(tmp_path: Path) -> None:
    arguments = [*PLAIN, "--allowed-tools", "Edit"]
    async with app_with(tmp_path, READ, WRITE, reply("improved"), arguments=arguments) as (app, _server):
        notes = app.work / "notes.txt"
        notes.write_text("one\ntwo\nthree\n")
        await prompted(app)
        await app.submit("improve it")
        await app.wait_for("improved")
        notes.write_text("one\nmine\nthree\n")
        await prompted(app)
        await app.submit("/undo")
        await app.wait_for("Undo: you changed notes.txt too")
        await asked(app)
        for shown in ("line 2, as it is now:", "| mine", "before “improve it”:", "| two", "keep my lines"):
            assert shown in app.text
        await app.submit("r")
        await app.wait_for("1 file restored")
        assert notes.read_text() == "one\ntwo\nthree\n"
        assert await leave(app) == 0
