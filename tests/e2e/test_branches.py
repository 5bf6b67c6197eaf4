"""Switching between the branches of a session in the real program, in the app and in plain mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_plain import PLAIN, asked, leave, prompted
from tests.support.scripts import pause, reply, say
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


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
