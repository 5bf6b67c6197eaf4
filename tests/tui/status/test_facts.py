"""When the status line is updated: at once, not too often, and when the cache or the branch changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.ids import SystemClock
from agentcli.tui.model import Facts
from agentcli.tui.status import data
from agentcli.tui.status.data import FACTS_SECONDS, FactsFeed


@dataclass
class Engine:
    """As much of one as the feed itself asks for."""

    cold_at: float | None = None
    asleep: float = 0.0
    root: Path = Path("/one")

    @property
    def context(self) -> Engine:
        return self

    def cache_seconds_left(self) -> float | None:
        left = -1.0 if self.cold_at is None else self.cold_at - asyncio.get_running_loop().time() - self.asleep
        return left if left > 0 else None


@pytest.fixture(autouse=True)
def _facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def facts_of(engine: Any, branch: str, agents: int) -> Facts:
        return Facts(branch=branch, agents=agents, cache_cold=engine.context.cache_seconds_left() is None)

    monkeypatch.setattr(data, "facts_of", facts_of)


@pytest.mark.virtual
async def test_many_simultaneous_changes_are_shown_at_once_and_one_more_time() -> None:
    shown: list[int] = []
    feed = FactsFeed(lambda facts: shown.append(facts.agents))
    feed.refresh()
    assert shown == [], "nobody is there yet"
    feed.follow(Engine())  # type: ignore[arg-type]
    for feed.agents in range(50):
        feed.refresh()
    assert shown == [0]
    await asyncio.sleep(FACTS_SECONDS * 2)
    assert shown == [0, 49]
    await feed.aclose()
    await asyncio.sleep(100)
    feed.refresh()
    assert shown == [0, 49], "closed"


@pytest.mark.virtual
@pytest.mark.parametrize(("before", "asleep", "after"), [(299, 0, 5), (10, 3_600, 5)])
async def test_an_expired_cache_is_shown_even_when_idle_or_after_sleep(before: int, asleep: int, after: int) -> None:
    shown: list[bool] = []
    feed, engine = FactsFeed(lambda facts: shown.append(facts.cache_cold)), Engine(cold_at=300.0)
    feed.follow(engine)  # type: ignore[arg-type]
    await asyncio.sleep(before)
    assert True not in shown
    engine.asleep = asleep
    await asyncio.sleep(after)
    assert shown[-1]
    await feed.aclose()


@pytest.mark.anyio
async def test_the_branch_of_a_newly_opened_session_replaces_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "POLL_SECONDS", 3_600.0)
    shown: list[str] = [""]

    def show(facts: Facts) -> None:
        if facts.branch != shown[-1]:
            shown.append(facts.branch)

    feed = FactsFeed(show, lambda root: "" if root.name == "bare" else f"branch of {root.name}")
    for expected in ("branch of one", "branch of two", ""):
        feed.follow(Engine(root=Path(expected.replace("branch of ", "/") or "/bare")))  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            while shown[-1] != expected:
                await asyncio.sleep(0.01)
    await feed.aclose()
    assert shown == ["", "branch of one", "branch of two", ""]


def test_the_clock_never_runs_backwards() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _look in range(100)]
    assert times == sorted(times)
