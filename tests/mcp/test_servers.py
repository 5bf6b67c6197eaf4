"""The servers of a session: connecting, calling, what they offer, and leaving nothing behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import ServerLimits
from agentcli.mcp.protocol import ServerOffers, ServerRequests
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers
from tests.support.mcp_fakes import tool_offer
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


def small(name: str = "small") -> ServerConfig:
    return ServerConfig(name, "stdio", command=sys.executable, args=("-S", str(SCRIPT)))


async def test_a_server_offers_its_tools_and_answers_calls(tmp_path: Path) -> None:
    servers = McpServers([small()], ServerSurroundings(tmp_path), ServerRequests())
    servers.start()
    await servers.wait_for_start(20)
    server = servers.get("small")
    assert server is not None
    assert server.state == "connected", server.error
    assert [tool.name for tool in server.offers.tools][:2] == ["echo", "add"]
    assert [resource.uri for resource in server.offers.resources] == ["note://one", "note://bytes"]
    assert [prompt.name for prompt in server.offers.prompts] == ["greet", "plain"]
    result = await server.call("add", {"a": 1, "b": 2})
    assert result.structured == {"sum": 3}
    await servers.aclose()
    assert server.state == "waiting"


async def test_a_server_without_approval_stays_so_when_it_is_stopped_or_started(tmp_path: Path) -> None:
    servers = McpServers([small()], ServerSurroundings(tmp_path), ServerRequests(), unapproved={"small"})
    server = servers.get("small")
    assert server is not None
    for change in (server.stop, server.reconnect, server.disable, server.enable, servers.aclose):
        await change()
        servers.start()
        assert server.state == "unapproved"


def test_a_server_with_ever_new_tools_does_not_fill_the_memory(tmp_path: Path) -> None:
    server = McpServer(small(), ServerSurroundings(tmp_path), ServerRequests(), ServerLimits(tools=3))
    for number in range(10):
        server.offers = ServerOffers(tools=(tool_offer(f"new {number}"), tool_offer("first", f"Version {number}")))
    assert server.has_changed(tool_offer("first", "Version 9"))
    assert len(server._first_tools) == 3


class SlowToEnd(McpServer):
    """Needs four seconds to end."""

    began: float | None = None

    async def _live(self) -> Any:
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        try:
            await asyncio.sleep(1_000)
        finally:
            await asyncio.sleep(4)


@pytest.mark.parametrize("in_between", [False, True])
def test_a_program_starts_when_that_of_the_earlier_session_has_ended(in_between: bool, tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        servers = [SlowToEnd(small(), ServerSurroundings(tmp_path), ServerRequests()) for _session in range(3)]
        servers[0].start()
        await asyncio.sleep(1)
        ending = asyncio.create_task(servers[0].close())
        await asyncio.sleep(1)
        last, servers[1].predecessor = servers[1], servers[0]
        last.start()
        if in_between:
            await asyncio.sleep(1)
            await last.close()
            assert loop.time() == pytest.approx(3), "it has no program to wait for"
            last, servers[2].predecessor = servers[2], last
            last.start()
        await asyncio.sleep(10)
        assert ending.done()
        assert last.began == pytest.approx(5)
        assert last.predecessor is None
        await last.close()

    run_virtual(main)
