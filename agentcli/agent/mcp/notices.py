"""Notices about MCP servers that fail, need a sign-in, restart or change a tool. One that connects is not reported."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.core.events import NoticeRaised
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import plural
from agentcli.mcp.server import McpServer, ServerState
from agentcli.mcp.servers import McpServers

CODE = "mcp"


class ServerNotices:
    """Each text is reported once, however often a server fails."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._version = -1
        self._states: dict[str, ServerState] = {}
        self._reported: set[str] = set()

    def take(self) -> list[NoticeRaised]:
        """Notices about changes since the last call. Cheap if nothing has changed."""
        if self._version == self._servers.version:
            return []
        self._version = self._servers.version
        found = [notice for server in self._servers for notice in self._of(server)]
        new = [notice for notice in found if notice.text not in self._reported]
        self._reported.update(notice.text for notice in new)
        return new

    def _of(self, server: McpServer) -> Iterator[NoticeRaised]:
        before, self._states[server.name] = self._states.get(server.name, "waiting"), server.state
        name, reason = plain_line(server.name, 60), plain_line(server.error, 160).rstrip(".")
        match server.state:
            case "failed" if server.retry_seconds is not None:
                yield _notice(f"MCP server {name} failed: {reason}; trying again")
            case "failed":
                yield _notice(f"MCP server {name} failed: {reason or 'no reason given'}; /mcp shows more")
            case "needs-auth":
                yield _notice(f"MCP server {name} needs sign-in; use /mcp login {name}")
            case "connected" if changed := [tool.name for tool in server.offers.tools if server.has_changed(tool)]:
                tools = plain_line(", ".join(changed), 160)
                yield _notice(f"MCP server {name} changed its {plural(len(changed), 'tool')} {tools}; /mcp shows more")
            case "connecting" | "waiting" if before == "connected" and reason:
                yield _notice(f"MCP server {name} failed: {reason}; trying again")


def _notice(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, level="warning", code=CODE)
