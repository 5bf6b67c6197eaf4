"""When frames come: soon after a change and not too often, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agentcli.tui.session import FRAME_SECONDS, SETTLE_SECONDS, FrameClock
from tests.support.virtual import run_virtual


class Frames:
    """A clock and the times of its frames."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.clock = FrameClock(lambda: self.times.append(asyncio.get_running_loop().time()))


def timed(test: Callable[[Frames], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(lambda: test(Frames()))

    run.__name__ = test.__name__
    return run


def about(times: list[float]) -> list[float]:
    return [round(time, 4) for time in times]


@timed
async def test_the_first_change_after_a_pause_is_painted_at_once(frames: Frames) -> None:
    await asyncio.sleep(1)
    frames.clock.request()
    frames.clock.request()
    await asyncio.sleep(1)
    assert about(frames.times) == [about([1 + SETTLE_SECONDS])[0]], "and all that came with it in the same frame"


@timed
async def test_changes_without_a_pause_are_painted_thirty_times_a_second_and_the_last_one_too(frames: Frames) -> None:
    for _change in range(1_000):
        frames.clock.request()
        await asyncio.sleep(0.001)
    last_change = asyncio.get_running_loop().time() - 0.001
    await asyncio.sleep(1)
    assert 29 <= len([time for time in frames.times if time < 1]) <= 31
    assert last_change < frames.times[-1] <= last_change + FRAME_SECONDS + SETTLE_SECONDS


@timed
async def test_a_stopped_clock_paints_nothing_until_the_next_change(frames: Frames) -> None:
    frames.clock.request()
    frames.clock.stop()
    await asyncio.sleep(1)
    assert not frames.times
    frames.clock.request()
    await asyncio.sleep(1)
    assert len(frames.times) == 1
