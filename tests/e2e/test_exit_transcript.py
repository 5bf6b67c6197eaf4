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


@pytest.mark.parametrize(
    ("wanted", "kept", "gone"),
    [
        (None, ("❯ second prompt", "◆ Done", "• one code", "agentcli -r "), ("first prompt", "First answer.")),
        ("all", ("❯ first prompt", "First answer.", "❯ second prompt", "◆ Done", "agentcli -r "), ()),
        ("none", ("agentcli -r ",), ("second prompt", "Done")),
    ],
)
async def test_the_normal_screen_keeps_the_configured_part_of_the_transcript(
    tmp_path: Path, wanted: str | None, kept: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    arguments = ("--settings", json.dumps({"exitTranscript": wanted})) if wanted else ()
    async with app_with(tmp_path, reply("First answer."), reply(ANSWER), arguments=arguments) as (app, _server):
        await app.ready()
        for prompt, answer in (("first prompt", "First answer."), ("second prompt", "two")):
            await app.submit(prompt)
            await app.wait_for(answer)
        assert await app.leave() == 0
        assert app.is_restored
        text = app.text
        for words in kept:
            assert words in text, (words, text)
        for words in gone:
            assert words not in text, (words, text)
        if wanted is None:
            rows = app.screen
            assert rows.index("❯ second prompt") < next(n for n, row in enumerate(rows) if "agentcli -r " in row)
            assert " ".join(text.split()).count("really") == 30, "wrapped, and nothing of it lost"
            assert "\u202e" not in text


async def test_the_normal_screen_keeps_all_pieces_of_a_continued_answer(tmp_path: Path) -> None:
    cut = [reply(text, stop_reason="max_tokens") for text in ("thrown away", "PART ONE is lo", "ng,\n\n")]
    async with app_with(tmp_path, *cut, reply("PART TWO is short.")) as (app, _server):
        await app.ready()
        await app.submit("write")
        await app.wait_for("PART TWO is short.")
        await app.ready()
        assert await app.leave() == 0
        assert app.is_restored
        assert "◆ PART ONE is long,\n\n  PART TWO is short." in app.text


async def test_background_commands_that_end_with_the_app_are_named(tmp_path: Path) -> None:
    lasting = reply(call("Bash", command="sleep 600", run_in_background=True))
    arguments = ("--dangerously-skip-permissions",)
    async with app_with(tmp_path, lasting, reply("It runs."), arguments=arguments) as (app, _server):
        await app.ready()
        await app.submit("start it")
        await app.wait_for("It runs.")
        assert await app.leave() == 0
        assert "Stopped 1 background task: bash_1 (sleep 600)" in app.text
