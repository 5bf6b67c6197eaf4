"""Token counts that the user sees, on a server that counts fewer tokens than are estimated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.test_plain import PLAIN, leave, prompted
from tests.support.scripts import call, reply, say
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio
PROMPTS = ("chapter-one", "chapter-two")
FEW = {"input_tokens": 2_000, "output_tokens": 1_000}


def numbers_after(text: str, pattern: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(pattern, text)]


async def test_cost_scales_every_part_to_the_measured_whole(tmp_path: Path) -> None:
    story = "Part of a long story. " * 300
    told = [reply(say(f"{story}The end of {prompt}.", chunk=2_000), usage=FEW) for prompt in PROMPTS]
    replies = [reply(call("Read", file_path="app.py"), usage=FEW), *told]
    async with app_with(tmp_path, *replies, arguments=PLAIN) as (app, _server):
        (app.work / "app.py").write_text("x = 1\n" * 400)
        await prompted(app)
        for prompt in PROMPTS:
            await app.submit(prompt)
            await app.wait_for(f"The end of {prompt}.")
            await prompted(app)
        await app.submit("/cost")
        await app.wait_for("results of")
        await prompted(app)
        [in_context] = numbers_after(app.text, r"Read +1 +[\d,]+ +([\d,]+)")
        assert 200 < in_context < 1_500
        assert await leave(app) == 0
