"""What stays on the normal screen after the app has quit, in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripts import reply
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
