"""The time limit of a call stands still while its server waits for the user."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentcli.mcp.configuration import ServerSurroundings
from agentcli.mcp.link import CallClock
from agentcli.mcp.protocol import InputAnswer, InputRequest, SamplingReply, SamplingRequest, ServerRequests
from agentcli.mcp.servers import McpServers
from tests.mcp.test_servers import small
from tests.support.virtual import run_virtual


async def ended_after(clock: CallClock, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with clock.limit(seconds):
            await asyncio.Event().wait()
    return loop.time() - began


async def question(clock: CallClock, after: float, lasts: float) -> None:
    await asyncio.sleep(after)
    with clock.stopped():
        await asyncio.sleep(lasts)


def test_the_time_of_open_questions_does_not_count() -> None:
    async def work() -> list[float]:
        clock = CallClock()
        # Both questions together are open from 2 to 9.
        questions = [question(clock, 2, 4), question(clock, 5, 4)]
        calls = [ended_after(clock, 1), ended_after(clock, 10)]
        took = await asyncio.gather(*calls, *questions)
        return [seconds for seconds in took if seconds is not None]

    assert run_virtual(work) == [1, 17]


def test_a_call_that_begins_while_a_question_is_open_gets_its_whole_time() -> None:
    async def late(clock: CallClock) -> float:
        await asyncio.sleep(1)
        return await ended_after(clock, 5)

    async def work() -> float:
        clock = CallClock()
        took, _ = await asyncio.gather(late(clock), question(clock, 0, 3))
        return took

    assert run_virtual(work) == 2 + 5


class WatchingDuties(ServerRequests):
    def __init__(self) -> None:
        self.limits: list[set[float | None]] = []
        self.servers: McpServers | None = None

    elicits = samples = True

    def _look(self) -> None:
        assert self.servers is not None
        [server] = self.servers
        assert server._connection is not None
        self.limits.append({limit.when() for limit in server._connection._clock._left})

    async def elicit(self, request: InputRequest) -> InputAnswer:
        self._look()
        return InputAnswer("decline")

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        self._look()
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
    assert duties.limits == [{None}, {None}]
