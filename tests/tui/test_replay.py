"""The replay of a session in the app: it plays to its end, can be paused, stepped, searched, and jumped in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.history.replay.playback import read_frames
from agentcli.history.replay.verify import read_session
from agentcli.tui.replay import ReplayApp
from agentcli.tui.screens.scrubber import Scrubber
from agentcli.tui.startup.preferences import load_preferences
from tests.support.record_sessions import FOLDER

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def playing(
    folder: Path, name: str = "todo_and_modes", *, speed: float = 10_000.0, paused: bool = False, columns: int = 100
) -> AsyncIterator[tuple[ReplayApp, Pilot[int]]]:
    frames = read_frames(read_session(FOLDER / f"{name}.jsonl"))
    app = ReplayApp(frames, speed, load_preferences(folder, {"HOME": str(folder)}, None, "dark"))
    app.is_paused = paused
    async with app.run_test(size=(columns, 30)) as pilot:
        yield app, pilot


async def until(pilot: Pilot[int], is_so: Callable[[], bool]) -> None:
    for _turn in range(2_000):
        if is_so():
            return
        await pilot.pause()
    raise AssertionError("it never became so")


def shown(app: ReplayApp) -> str:
    app.transcript.frame()
    return app.transcript.source_text()


def state(app: ReplayApp) -> str:
    return str(app.query_one("#state").render())


async def test_it_plays_to_the_end_and_nothing_can_be_sent(tmp_path: Path) -> None:
    async with playing(tmp_path) as (app, pilot):
        await until(pilot, lambda: app.index == len(app.frames))
        assert shown(app).index("Plan") < shown(app).index("In plan mode.") < shown(app).index("Small.")
        assert "at the end" in state(app)
        assert "prompt 4 of 4" in state(app)
        before = shown(app)
        await pilot.press("h", "i", "escape")
        assert shown(app) == before
    assert app.return_value == 0


async def test_paused_it_stands_still_until_it_is_stepped(tmp_path: Path) -> None:
    async with playing(tmp_path, paused=True) as (app, pilot):
        await pilot.pause()
        assert "paused" in state(app)
        places = []
        for _step in range(3):
            await pilot.press("right")
            await until(pilot, lambda: not app._steps)
            places.append(app.index)
            assert "paused" in state(app)
        assert places == sorted(set(places))
        assert "Plan" in shown(app)
        assert "Small." not in shown(app)
        await pilot.press("space")
        await until(pilot, lambda: app.index == len(app.frames))
        assert "Small." in shown(app)


async def test_the_speed_changes_by_keys(tmp_path: Path) -> None:
    async with playing(tmp_path, paused=True, speed=1.0) as (app, pilot):
        await pilot.press("plus", "plus", "minus")
        assert app.speed == 2.0
        await pilot.press(*["minus"] * 9)
        assert (app.speed, "0.25×" in state(app)) == (0.25, True)


async def test_a_jump_shows_what_was_before_at_once_and_plays_on(tmp_path: Path) -> None:
    async with playing(tmp_path, paused=True) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, Scrubber) and app.screen.step is not None)
        await pilot.press("up", "enter")
        await until(pilot, lambda: "Now change" in shown(app))
        assert "In plan mode." in shown(app)
        assert "Changed." not in shown(app)
        assert "prompt 3 of 4" in state(app)
        await pilot.press("space")
        await until(pilot, lambda: app.index == len(app.frames))
        assert shown(app).count("In plan mode.") == 1
        assert "Small." in shown(app)


async def test_a_search_finds_an_answer_to_play_on_from(tmp_path: Path) -> None:
    async with playing(tmp_path, paused=True) as (app, pilot):
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Scrubber) and app.screen.step is not None)
        await pilot.press("slash", *"changed")
        await until(pilot, lambda: isinstance(app.screen, Scrubber) and "Changed." in str(app.screen.step))
        await pilot.press("enter")
        await until(pilot, lambda: "Changed." in shown(app))
        assert "Quickly" not in shown(app)
        assert "paused" in state(app)


@pytest.mark.parametrize("columns", [120, 80, 40, 20])
async def test_the_state_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    async with playing(tmp_path, paused=True, columns=columns) as (app, pilot):
        await pilot.pause()
        assert app.query_one("#state").size.height == 1
        assert len(state(app)) <= columns
        assert ("Space" in state(app)) is (columns > 20)
