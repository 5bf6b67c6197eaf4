"""`agentcli sessions export` and `/export` of the real program: files to share, without what nobody should see."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from agentcli.core.text.format import byte_size
from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-" + "a1B2" * 12
REPLACED = (
    "1 secret was replaced: 1 Anthropic API key in {}. "
    "Check the file before you share it: not every secret can be recognised.\n"
)
PLACES = REPLACED.format("prompt 1 and call 1 `Read .env`")


async def record_session(program: Program) -> None:
    (program.work / ".env").write_text(f"ANTHROPIC_KEY={KEY}\n")
    replies = [
        reply(call("Read", file_path=".env"), call("Write", file_path="calc.py", content="a = 1\n")),
        reply("**Done** <script>alert(1)</script>"),
    ]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        assert (await program.run("-p", f"use {KEY}", "--permission-mode", "bypassPermissions")).code == 0


async def test_a_session_is_exported_in_every_format_and_no_file_is_overwritten(program: Program) -> None:
    await record_session(program)
    for name in ("talk.html", "talk.json", "talk.md", "talk.zip"):
        ended = await program.run("sessions", "export", "use", "-o", name)
        assert (ended.code, ended.err) == (0, "")
        written, _break, replaced = ended.out.partition("\n")
        assert written == f"Wrote {byte_size((program.work / name).stat().st_size)} to {name}."
        assert replaced.startswith(REPLACED.partition("{}")[0] + "line ") if name == "talk.zip" else replaced == PLACES
        assert KEY.encode() not in (program.work / name).read_bytes()
    page = (program.work / "talk.html").read_text()
    assert "<strong>Done</strong> &lt;script&gt;" in page
    assert json.loads((program.work / "talk.json").read_text())["session"]["calls"] == 2
    assert "```diff\n@@ -0,0 +1,1 @@\n+a = 1\n```" in (program.work / "talk.md").read_text()
    with zipfile.ZipFile(program.work / "talk.zip") as archive:
        assert archive.namelist() == ["session.jsonl", "about.json"]
    replayed = await program.run("replay", "talk.zip", "--verify")
    assert replayed.code == 0, replayed.out
    assert "Requests: 2 of 2 identical" in replayed.out, "also those that had a secret"

    again = await program.run("sessions", "export", "use", "-o", "talk.md")
    assert (again.code, again.out) == (1, "")
    assert again.err == "agentcli: talk.md exists already. To replace it, add --force.\n"
    assert (await program.run("sessions", "export", "use", "-o", "talk.md", "--force", "--keep-secrets")).code == 0
    assert KEY in (program.work / "talk.md").read_text()


async def test_an_export_is_printed_and_named_after_the_session_without_a_file(program: Program) -> None:
    await record_session(program)
    printed = await program.run("sessions", "export", "use", "-o", "-")
    assert printed.out.startswith("# use [secret 1: Anthropic API key]\n")
    assert printed.err == PLACES
    assert (await program.run("sessions", "export", "use", "--format", "html", "--theme", "gruvbox-dark")).code == 0
    [page] = program.work.glob("conversation-*.html")
    assert 'data-theme="dark"' in page.read_text()
    (program.work / "talks").mkdir()
    assert (await program.run("sessions", "export", "use", "-o", "talks", "--format", "json")).code == 0
    assert (await program.run("sessions", "export", "use", "-o", "new/", "--format", "bundle")).code == 0
    [data], [bundle] = program.work.glob("talks/conversation-*.json"), program.work.glob("new/conversation-*.zip")
    assert data.stem == bundle.stem == page.stem
    wrong = await program.run("sessions", "export", "use", "--format", "pdf")
    assert (wrong.code, wrong.err) == (2, "agentcli: pdf is not a format: use md, json, html or bundle.\n")


async def test_the_app_writes_a_page(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("It is **fine**.")) as (app, _server):
        await app.ready()
        await app.submit("is it fine?")
        await app.wait_for("It is fine.")
        await app.submit("/export talk.html")
        await app.wait_for("to talk.html")
        page = (app.work / "talk.html").read_text()
        assert "It is <strong>fine</strong>." in page
        assert "is it fine?" in page
        assert await app.leave() == 0
