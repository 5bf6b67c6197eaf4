"""A line after `# ` in the prompt box goes into an instruction file, and the model learns of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


async def test_a_line_is_added_to_the_chosen_file_and_reaches_the_model_once_also_after_clear(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("first"), reply("second"), reply("third")) as (app, server):
        await app.ready()
        await app.submit("hello")
        await app.wait_for("first")
        await app.submit("# be brief")
        await app.wait_for("which file")
        await app.press("enter")
        await app.wait_for("Added to")
        await app.submit("go on")
        await app.wait_for("second")
        assert (app.work / "AGENTS.md").read_text() == "- be brief\n"
        assert "be brief" in json.dumps(server.bodies[-1]["messages"])
        assert "be brief" not in json.dumps(server.bodies[0]["messages"])

        await app.submit("/clear")
        await app.wait_for("second", gone=True)
        await app.submit("# always run make check")
        await app.wait_for("which file")
        await app.press("enter")
        await app.wait_for("Added to")
        await app.submit("go on")
        await app.wait_for("third")
        assert await app.leave() == 0
    sent = json.dumps(server.bodies[-1]["messages"])
    assert (sent.count("be brief"), sent.count("always run make check")) == (1, 1)
    async with app_with(tmp_path, reply("fourth"), arguments=["-c"]) as (app, server):
        await app.ready()
        await app.submit("more")
        await app.wait_for("fourth")
        assert await app.leave() == 0
    resumed = json.dumps(server.bodies[-1]["messages"])
    assert (resumed.count("be brief"), resumed.count("always run make check")) == (1, 1)
