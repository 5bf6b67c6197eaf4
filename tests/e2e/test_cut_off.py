"""A session that was cut off while it worked: the next start in its folder offers it, once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.scripts import fault, reply, say
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

OFFER = "A session was cut off while it worked, just now: “fix the parser”."


async def cut_off(folder: Path, draft: str = "", number: signal.Signals = signal.SIGKILL, *more: str) -> None:
    """Leave a session whose reply was cut off, and a draft."""
    begins = reply(say("It begins.\n\n"), fault("stall"))
    async with app_with(folder, begins, arguments=[*more, "--", "fix the parser"]) as (app, _server):
        await app.wait_for("It begins.")
        if draft:
            await app.type(draft)
            await app.wait_for(lambda: any(draft in path.read_text() for path in app.home.rglob("drafts/*/*.json")))
        app.signal(number)
        await app.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name)
async def test_tab_continues_a_session_that_was_cut_off_with_its_draft(tmp_path: Path, number: signal.Signals) -> None:
    await cut_off(tmp_path, "and the lexer", number)
    async with app_with(tmp_path, "Going on.") as (app, server):
        await app.ready()
        await app.wait_for(f"{OFFER} Tab continues it.")
        assert app.box == "and the lexer"
        await app.press("tab")
        await app.wait_for("It begins.")
        await app.wait_for("❯ fix the parser")
        await app.wait_for("agentcli was closed before this was done.")
        assert OFFER not in app.text
        assert app.box == "and the lexer"
        await app.press("ctrl+u")
        await app.wait_for("continue  ↵ Enter")
        await app.press("enter")
        await app.wait_for("Going on.")
        sent = server.bodies[-1]["messages"]
        assert "fix the parser" in json.dumps(sent[0])
        assert "It begins." in json.dumps(sent[1])
        assert sent[-1]["content"][-1]["text"] == "continue"
        assert await app.leave() == 0
    assert list(tmp_path.rglob("*.lock")) == []


async def test_any_other_key_dismisses_the_offer_and_what_is_typed_goes_to_a_new_session(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    async with app_with(tmp_path, "Something else.") as (app, server):
        await app.ready()
        await app.wait_for(f"{OFFER} Tab continues it.")
        await app.type("n")
        await app.wait_for(f"{OFFER} /resume continues it.")
        await app.submit("ew")
        await app.wait_for("Something else.")
        assert [message["role"] for message in server.bodies[-1]["messages"]] == ["user"]
        assert await app.leave() == 0


async def test_plain_mode_names_the_command_and_headless_mode_says_nothing(tmp_path: Path) -> None:
    await cut_off(tmp_path, "", signal.SIGHUP, "--plain")
    async with app_with(tmp_path, "Done.", arguments=["-p", "hi"]) as (program, _server):
        assert await program.end() == 0
        assert program.text.strip() == "Done."
    async with app_with(tmp_path, "Going on.", arguments=["--plain"], columns=160) as (app, server):
        await app.wait_for("A session was cut off while it worked")
        command = next(row for row in app.screen if "/resume" in row).split("/resume ")[1].split()[0]
        await app.submit(f"/resume {command}")
        await app.wait_for("It begins.")
        await app.wait_for("agentcli was closed before this was done.")
        await app.submit("continue")
        await app.wait_for("Going on.")
        assert "fix the parser" in json.dumps(server.bodies[-1]["messages"][0])
        assert await app.leave() == 0
