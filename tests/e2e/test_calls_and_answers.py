"""What the app says about calls that were denied, allowed for good or interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import call, pause, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


async def test_calls_name_who_denied_or_allowed_them_and_interruptions_speak_of_partial_output_if_there_is_some(
    tmp_path: Path,
) -> None:
    denied = [call("Bash", command="touch a"), call("Write", file_path="b.txt", content="x\n")]
    plans = reply(call("Write", file_path="c.txt", content="x\n"))
    allowed = [call("Bash", command="mkdir one"), call("Bash", command="mkdir two")]
    replies = [
        *(reply(*denied), reply("Well then."), plans, reply("A plan it is.")),
        *(reply(*allowed), reply("Both are there.")),
        *(reply(pause(60), "never"), reply("A beginning.", pause(60), "never")),
    ]
    async with app_with(tmp_path, *replies, arguments=["--disallowedTools", "Bash(touch *)"]) as (app, server):
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
        assert "keep exploring" not in app.text
        assert "keep exploring" in json.dumps(server.bodies[-1]["messages"][-1])

        await app.submit("/mode default")
        await app.wait_for("The mode is default: ")
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
        await app.wait_for(lambda: len(server.bodies) == 7)
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
