"""The permission mode in the real program: one line about a change, and the same mode when a session is continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_plain import PLAIN, prompted
from tests.support.scripts import reply
from tests.support.terminal import app_with, earlier_session

pytestmark = pytest.mark.anyio


async def test_the_app_continues_in_the_mode_of_the_session(tmp_path: Path) -> None:
    arguments = ["--permission-mode", "acceptEdits"]
    await earlier_session(tmp_path, "hello", reply("hello there"), arguments=arguments)
    async with app_with(tmp_path, arguments=["-c"]) as (app, _server):
        await app.ready()
        await app.wait_for("Permission mode accept edits is restored from the earlier session.")
        await app.submit("/mode plan")
        await app.wait_for("The mode is plan: ")
        assert "Permission mode: plan" not in app.text
        assert await app.leave() == 0


async def test_plain_mode_reports_a_mode_once_and_never_restores_bypass(tmp_path: Path) -> None:
    arguments = [*PLAIN, "--dangerously-skip-permissions"]
    async with app_with(tmp_path, reply("hello there"), arguments=arguments) as (app, _server):
        await prompted(app)
        await app.submit("hello")
        await app.wait_for("hello there")
        await app.wait_for("bypass permissions ❯")
        await app.press("ctrl+d")
        assert await app.end() == 0
    async with app_with(tmp_path, arguments=[*PLAIN, "-c"]) as (app, _server):
        await app.wait_for("Not restored from the earlier session: mode bypass permissions. The mode is now default.")
        await prompted(app)
        await app.submit("/mode acceptEdits")
        await app.wait_for("The mode is accept edits: ")
        assert "Permission mode: accept edits" not in app.text
        await app.wait_for("accept edits ❯")
        await app.press("ctrl+d")
        assert await app.end() == 0
