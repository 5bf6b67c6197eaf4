"""What stays on the normal screen after the app has quit, in a real terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import call, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

LONG_WORDS = "The parser is " + "really " * 30 + "fixed."
ANSWER = f"# Done\n\n{LONG_WORDS}\n\n- one `code`\n- two \x1b]0;title\x07 \u202eevil\n"


async def test_the_normal_screen_keeps_the_last_exchange_with_all_pieces_of_a_continued_answer(tmp_path: Path) -> None:
    cut = [reply(text, stop_reason="max_tokens") for text in ("thrown away", "PART ONE is lo", "ng,\n\n")]
    replies = (reply("First answer."), *cut, reply(f"PART TWO is short.\n\n{ANSWER}"))
    async with app_with(tmp_path, *replies) as (app, _server):
        await app.ready()
        for prompt, answer in (("first prompt", "First answer."), ("second prompt", "• two")):
            await app.submit(prompt)
            await app.wait_for(answer)
        await app.ready()
        assert await app.leave() == 0
        assert app.is_restored
        text, rows = app.text, app.screen
        assert "◆ PART ONE is long,\n\n  PART TWO is short.\n\n  Done\n" in text
        for words in ("❯ second prompt", "• one code", "agentcli -r "):
            assert words in text, (words, text)
        for words in ("first prompt", "First answer.", "thrown away"):
            assert words not in text, (words, text)
        assert rows.index("❯ second prompt") < next(n for n, row in enumerate(rows) if "agentcli -r " in row)
        assert " ".join(text.split()).count("really") == 30, "wrapped, and nothing of it lost"
        assert "\u202e" not in text


async def test_if_configured_the_normal_screen_keeps_all_exchanges(tmp_path: Path) -> None:
    arguments = ("--settings", json.dumps({"exitTranscript": "all"}))
    async with app_with(tmp_path, reply("First answer."), reply(ANSWER), arguments=arguments) as (app, _server):
        await app.ready()
        for prompt, answer in (("first prompt", "First answer."), ("second prompt", "• two")):
            await app.submit(prompt)
            await app.wait_for(answer)
        assert await app.leave() == 0
        assert app.is_restored
        for words in ("❯ first prompt", "First answer.", "❯ second prompt", "◆ Done", "agentcli -r "):
            assert words in app.text, (words, app.text)


async def test_if_configured_the_normal_screen_keeps_only_the_farewell_with_ended_background_commands(
    tmp_path: Path,
) -> None:
    lasting = reply(call("Bash", command="sleep 600", run_in_background=True))
    arguments = ("--dangerously-skip-permissions", "--settings", json.dumps({"exitTranscript": "none"}))
    async with app_with(tmp_path, lasting, reply("It runs."), arguments=arguments) as (app, _server):
        await app.ready()
        await app.submit("start it")
        await app.wait_for("It runs.")
        assert await app.leave() == 0
        assert app.is_restored
        assert "agentcli -r " in app.text
        assert "Stopped 1 background task: bash_1 (sleep 600)" in app.text
        for words in ("start it", "It runs."):
            assert words not in app.text, (words, app.text)
