"""What the app says about calls that were denied, allowed for good or interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import call, pause, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


async def test_a_denied_call_names_who_denied_it_and_the_model_gets_its_own_text(tmp_path: Path) -> None:
    calls = [call("Bash", command="touch a"), call("Write", file_path="b.txt", content="x\n")]
    arguments = ["--disallowedTools", "Bash(touch *)"]
    plans = reply(call("Write", file_path="c.txt", content="x\n"))
    replies = [reply(*calls), reply("Well then."), plans, reply("A plan it is.")]
    async with app_with(tmp_path, *replies, arguments=arguments) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("Create this file?")
        await app.answer("3")
        await app.wait_for("Well then.")
        assert "⊘ Bash touch a · denied by rule Bash(touch *) from --disallowedTools" in app.text
        assert "⊘ Write b.txt · denied by you" in app.text
        assert "The user declined" not in app.text
        sent = json.dumps(server.bodies[-1]["messages"][-1])
        assert "The user declined this call." in sent
        await app.submit("/mode plan")
        await app.wait_for("The mode is plan: ")
        await app.submit("plan")
        await app.wait_for("A plan it is.")
        assert "⊘ Write c.txt · denied by plan mode" in app.text
        assert "Keep exploring" not in app.text
        assert "Keep exploring" in json.dumps(server.bodies[-1]["messages"][-1])
        assert await app.leave() == 0


async def test_a_saved_rule_is_shown_at_its_call_and_interruptions_speak_of_partial_output_if_there_is_some(
    tmp_path: Path,
) -> None:
    calls = [call("Bash", command="mkdir one"), call("Bash", command="mkdir two")]
    silent, talking = reply(pause(60), "never"), reply("A beginning.", pause(60), "never")
    async with app_with(tmp_path, reply(*calls), reply("Both are there."), silent, talking) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("Run this command?")
        await app.answer("2")
        await app.wait_for(lambda: "Always allow Bash(mkdir two)" in app.text)
        await app.answer("1")
        await app.wait_for("Both are there.")
        lines = [line.strip() for line in app.screen]
        place = next(number for number, line in enumerate(lines) if line.startswith("✓ Bash mkdir one"))
        assert lines[place + 1] == "│ Allowed from now on (for this session): Bash(mkdir one)"
        assert app.text.count("Allowed from now on") == 1

        await app.submit("on")
        await app.wait_for(lambda: len(server.bodies) == 3)
        await app.press("escape")
        await app.wait_for("Interrupted. What should be done instead?")
        await app.submit("again")
        await app.wait_for("A beginning.")
        await app.press("escape")
        await app.wait_for("Interrupted. Partial output is kept. What should be done instead?")
        assert await app.leave() == 0
    async with app_with(tmp_path, arguments=["-c"]) as (app, _server):
        await app.ready()
        await app.wait_for("Interrupted. Partial output is kept. What should be done instead?")
        assert app.text.count("Interrupted. What should be done instead?") == 1
        assert await app.leave() == 0
