"""When the status line is updated: at once, not too often, and when the cache expires."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from agentcli.core.ids import SystemClock
from agentcli.tui.model import Facts
from agentcli.tui.status import data as facts_module
from agentcli.tui.status.data import FACTS_SECONDS, FactsFeed

pytestmark = pytest.mark.virtual


@dataclass
class Engine:
    """As much of one as the feed itself asks for."""

    cold_at: float | None = None
    asleep: float = 0.0
    looked: int = 0

    @property
    def context(self) -> Engine:
        return self

    def cache_seconds_left(self) -> float | None:
        self.looked += 1
        if self.cold_at is None:
            return None
        left = self.cold_at - asyncio.get_running_loop().time() - self.asleep
        return left if left > 0 else None


@pytest.fixture(autouse=True)
def _facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def facts_of(engine: Any, branch: str, _agents: int) -> Facts:
        return Facts(
            branch=branch, cache_cold=engine.cold_at is not None and engine.context.cache_seconds_left() is None
        )

    monkeypatch.setattr(facts_module, "facts_of", facts_of)


async def test_many_simultaneous_changes_are_shown_at_once_and_one_more_time() -> None:
    shown: list[Facts] = []
    feed = FactsFeed(shown.append)
    feed.refresh()
    assert shown == [], "nobody is there yet"
    feed.follow(Engine())  # type: ignore[arg-type]
    for number in range(50):
        feed.set_branch(str(number))
    assert len(shown) == 1
    await asyncio.sleep(FACTS_SECONDS * 2)
    assert [one.branch for one in shown] == ["", "49"]
    await feed.aclose()


async def test_an_expiring_cache_is_shown_even_when_idle() -> None:
    shown: list[Facts] = []
    feed, engine = FactsFeed(shown.append), Engine(cold_at=300.0)
    feed.follow(engine)  # type: ignore[arg-type]
    await asyncio.sleep(299)
    assert [one.cache_cold for one in shown] == [False]
    await asyncio.sleep(2)
    assert [one.cache_cold for one in shown] == [False, True]
    looked = engine.looked
    await asyncio.sleep(10_000)
    assert engine.looked == looked, "then there is nothing more to wait for"
    await feed.aclose()


async def test_after_the_machine_slept_the_status_is_updated_soon() -> None:
    shown: list[Facts] = []
    feed, engine = FactsFeed(shown.append), Engine(cold_at=300.0)
    feed.follow(engine)  # type: ignore[arg-type]
    await asyncio.sleep(10)
    engine.asleep = 3_600.0
    await asyncio.sleep(20)
    assert [one.cache_cold for one in shown] == [False, True]
    await feed.aclose()


async def test_a_closed_feed_shows_no_further_updates() -> None:
    shown: list[Facts] = []
    feed = FactsFeed(shown.append)
    feed.follow(Engine(cold_at=5.0))  # type: ignore[arg-type]
    feed.refresh()
    await feed.aclose()
    await asyncio.sleep(100)
    feed.refresh()
    assert len(shown) == 1


def test_the_clock_never_runs_backwards() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _look in range(100)]
    assert times == sorted(times)
