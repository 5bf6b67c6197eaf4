"""The app that tests share: what one of them leaves behind fails it, and the next gets another app."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot

from agentcli.tui.screens.page import TextPage
from tests.tui.screen_host import Host, look, play


def test_a_task_that_is_left_behind_fails_its_test_alone() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def steps(_pilot: Pilot[None], _host: Host) -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(3_600), name="forgotten"))

    with pytest.raises(AssertionError, match=r"left behind: .*forgotten"):
        play(TextPage("Log", ["one"]), steps)
    assert tasks[0].cancelled()
    assert "one" in look(TextPage("Log", ["one"]))
