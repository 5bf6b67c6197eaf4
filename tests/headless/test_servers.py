"""A headless run waits for its MCP servers, no longer than needed, and reports those it goes on without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from agentcli.headless.session import wait_for_servers
from tests.support.virtual import run_virtual


@dataclass
class FakeServer:
    name: str
    state: str
    error: str = ""

    @property
    def start_ended(self) -> bool:
        return self.state != "connecting"


@dataclass
class FakeServers:
    servers: list[FakeServer]
    seconds: float = 0
    """Until all have settled."""
    limits: Any = field(default_factory=lambda: SimpleNamespace(start_seconds=30.0, first_prompt_seconds=10.0))
    started: bool = False

    def __iter__(self) -> Iterator[FakeServer]:
        return iter(self.servers)

    def start(self) -> None:
        self.started = True

    async def wait_for_start(self, seconds: float) -> None:
        await asyncio.sleep(min(self.seconds, seconds))
        if self.seconds < seconds:
            for server in self.servers:
                server.state = "connected" if server.state == "connecting" else server.state


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def waited(servers: FakeServers, stop_after: float | None = None) -> tuple[float, list[str]]:
    """Seconds of the wait, and what was reported."""
    said = Said()

    async def work() -> float:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        if stop_after is not None:
            loop.call_later(stop_after, stopped.set)
        began = loop.time()
        await wait_for_servers(servers, stopped, said)  # type: ignore[arg-type]
        assert servers.started
        return loop.time() - began

    return run_virtual(work), said.lines


def test_a_short_wait_is_not_mentioned() -> None:
    assert waited(FakeServers([FakeServer("a", "connecting")], seconds=1)) == (1, [])


def test_a_longer_wait_names_the_servers() -> None:
    servers = FakeServers([FakeServer("a", "connecting"), FakeServer("b", "connected")], seconds=5)
    seconds, said = waited(servers)
    assert seconds == 5
    assert said == ["Waiting up to 10 s for MCP servers: a. Ctrl+C stops."]


def test_the_wait_has_an_end() -> None:
    still = "MCP server a is still connecting; continuing without it. MCP_TIMEOUT sets how long to wait."
    seconds, said = waited(FakeServers([FakeServer("a", "connecting")], seconds=1000))
    assert (seconds, said[1:]) == (10, [still])
    chosen = SimpleNamespace(start_seconds=60.0, first_prompt_seconds=60.0)
    seconds, said = waited(FakeServers([FakeServer("a", "connecting")], seconds=1000, limits=chosen))
    assert (seconds, said) == (65, ["Waiting up to 60 s for MCP servers: a. Ctrl+C stops.", still])


def test_a_signal_ends_the_wait() -> None:
    seconds, said = waited(FakeServers([FakeServer("a", "connecting")], seconds=1000), stop_after=3)
    assert seconds == 3
    assert len(said) == 1


def test_servers_that_are_missing_are_named_with_the_reason() -> None:
    servers = [
        FakeServer("gone", "failed", "no such program"),
        FakeServer("locked", "needs-auth"),
        FakeServer("off", "disabled"),
        FakeServer("theirs", "unapproved"),
        FakeServer("there", "connected"),
    ]
    assert waited(FakeServers(servers))[1] == [
        "MCP server gone failed: no such program",
        "MCP server locked needs you to sign in.",
    ]
