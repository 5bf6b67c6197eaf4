"""What the parts of a connection share: the time of calls, and work outside of cancel scopes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import anyio
import pytest

from agentcli.core.aio import in_thread
from agentcli.mcp import answers
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import CallClock, run_outside_scopes
from agentcli.mcp.protocol import InputAnswer, InputRequest, SamplingReply, SamplingRequest, ServerRequests
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers
from tests.mcp.test_servers import small
from tests.support.virtual import VirtualLoop


async def question(clock: CallClock, after: float, lasts: float) -> None:
    await asyncio.sleep(after)
    with clock.stopped():
        await asyncio.sleep(lasts)


@pytest.mark.virtual
async def test_the_time_of_open_questions_does_not_count() -> None:
    clock, loop = CallClock(), asyncio.get_running_loop()
    began = clock.now() - loop.time()
    # Both questions together are open from 2 to 9.
    asking = asyncio.gather(question(clock, 2, 4), question(clock, 5, 4))
    seen = []
    for _ in range(6):
        seen.append(clock.now() - loop.time() - began)
        await asyncio.sleep(2)
    await asking
    assert seen == [0, 0, -2, -4, -6, -7]


class WatchingDuties(ServerRequests):
    def __init__(self) -> None:
        self.times: list[float] = []
        self.servers: McpServers | None = None

    elicits = samples = True

    async def _look(self) -> None:
        assert self.servers is not None
        [server] = self.servers
        assert server._connection is not None
        began = server._connection._clock.now()
        await asyncio.sleep(0.01)
        self.times.append(server._connection._clock.now() - began)

    async def elicit(self, request: InputRequest) -> InputAnswer:
        await self._look()
        return InputAnswer("decline")

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        await self._look()
        return SamplingReply("yes", "a-model")


@pytest.mark.anyio
async def test_questions_and_sampling_stop_the_clock_of_their_server(tmp_path: Path) -> None:
    duties = WatchingDuties()
    duties.servers = servers = McpServers([small()], ServerSurroundings(tmp_path, {"PATH": os.defpath}), duties)
    servers.start()
    await servers.wait_for_start(20)
    [server] = servers
    await server.call("ask", {})
    await server.call("think", {})
    await servers.aclose()
    assert duties.times == [0, 0]


SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


@pytest.mark.virtual
async def test_work_in_a_cancelled_scope_cleans_up_undisturbed_and_without_spinning() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)
            await asyncio.sleep(5)
            ended.append("cleaned up")

    with anyio.CancelScope() as scope:
        loop.call_later(1, scope.cancel)
        await run_outside_scopes(work())
    assert ended == ["cleaned up"]
    assert scope.cancelled_caught
    assert loop.steps < 30


@pytest.mark.anyio
async def test_a_server_can_be_stopped_while_a_thread_reads_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, released = threading.Event(), threading.Event()
    read_page = answers._read_page

    def held(*arguments: object) -> object:
        began.set()
        released.wait(60)
        return read_page(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "_read_page", held)
    config = ServerConfig("small", "stdio", command=sys.executable, args=("-S", str(SCRIPT)))
    server = McpServer(config, ServerSurroundings(tmp_path), ServerRequests())
    server.start()
    await in_thread(began.wait, 60)
    stopping = asyncio.create_task(server.stop())
    await asyncio.wait({stopping}, timeout=0.1)
    released.set()
    async with asyncio.timeout(30):
        await stopping
    assert server.state == "waiting"
