"""The servers of a session: connecting, calling, what they offer, and leaving nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentcli.mcp.client_duties import ClientDuties
from agentcli.mcp.server_config import ServerConfig
from agentcli.mcp.servers import McpServers
from agentcli.mcp.transport import ServerSurroundings

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


def small(name: str = "small") -> ServerConfig:
    return ServerConfig(name, "stdio", command=sys.executable, args=("-S", str(SCRIPT)))


async def test_a_server_offers_its_tools_and_answers_calls(tmp_path: Path) -> None:
    servers = McpServers([small()], ServerSurroundings(tmp_path), ClientDuties())
    servers.start()
    await servers.settle(20)
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
    servers = McpServers([small()], ServerSurroundings(tmp_path), ClientDuties(), unapproved={"small"})
    server = servers.get("small")
    assert server is not None
    for change in (server.stop, server.reconnect, server.disable, server.enable, servers.aclose):
        await change()
        servers.start()
        assert server.state == "unapproved"
