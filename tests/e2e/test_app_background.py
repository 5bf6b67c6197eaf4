"""Background tasks in the app: the model continues after their end, the draft stays, and Ctrl+B moves agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import call, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

BUILD = reply(call("Bash", command="until [ -e go ]; do sleep 0.02; done; echo built", run_in_background=True))
ALLOWED = ("--allowedTools", "Bash")


async def test_the_end_of_a_background_command_starts_a_turn_beside_the_draft(tmp_path: Path) -> None:
    replies = (BUILD, "Started.", "The build is done.")
    async with app_with(tmp_path, *replies, arguments=ALLOWED) as (app, server):
        await app.ready()
        await app.submit("build it")
        await app.wait_for("Started.")
        await app.type("half a draft")
        await app.wait_for(lambda: app.box == "half a draft")
        (app.work / "go").touch()
        await app.wait_for("The build is done.")
        assert "Continuing because bash_1" in app.text
        assert app.box == "half a draft"
        assert "its output:\\n    built" in json.dumps(server.bodies[-1]["messages"][-1])
        assert await app.leave() == 0


async def test_ctrl_b_sends_a_running_agent_to_the_background_and_its_report_comes_later(tmp_path: Path) -> None:
    agent = call("Task", description="look around", prompt="look", subagent_type="general")
    waiting = call("Bash", command="touch begun; until [ -e go ]; do sleep 0.02; done")
    replies = (
        reply(waiting, match="You work on one task"),
        reply("All is well.", match="You work on one task"),
        reply(agent),
        "Meanwhile, something else.",
        "The agent has reported.",
    )
    async with app_with(tmp_path, *replies, arguments=ALLOWED) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for(lambda: (app.work / "begun").exists())
        await app.press("ctrl+b")
        await app.wait_for("Meanwhile, something else.")
        assert "The user moved the agent general-1 to the background" in json.dumps(server.bodies[-1]["messages"][-1])
        (app.work / "go").touch()
        await app.wait_for("The agent has reported.")
        assert "Continuing because general-1 ended." in app.text
        assert "All is well." in json.dumps(server.bodies[-1]["messages"][-1])
        assert await app.leave() == 0
