"""All MCP servers of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator

from agentcli.mcp.client_duties import ClientDuties
from agentcli.mcp.limits import ServerLimits
from agentcli.mcp.server import McpServer, ServerState
from agentcli.mcp.server_config import ServerConfig
from agentcli.mcp.transport import ServerSurroundings


class McpServers:
    def __init__(
        self,
        configs: Iterable[ServerConfig],
        around: ServerSurroundings,
        duties: ClientDuties,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - immutable
        *,
        disabled: Collection[str] = (),
        unapproved: Collection[str] = (),
    ) -> None:
        """`disabled`, `unapproved`: names of servers that are not started."""
        self.version = 0
        """Higher after each change of a state or a list."""
        self.duties = duties
        self._changed = asyncio.Event()
        self._servers = {
            config.name: McpServer(
                config,
                around,
                duties,
                limits,
                state=_first_state(config.name, disabled, unapproved),
                on_change=self._note_change,
            )
            for config in configs
        }

    def __iter__(self) -> Iterator[McpServer]:
        return iter(self._servers.values())

    def get(self, name: str) -> McpServer | None:
        return self._servers.get(name)

    def start(self) -> None:
        """Begin to connect to all; returns at once."""
        for server in self:
            server.start()

    async def settle(self, seconds: float) -> None:
        """Wait until no server is connecting any more, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                while not all(server.settled for server in self):
                    await self.wait_for_change(self.version)
        except TimeoutError:
            return

    async def wait_for_change(self, version: int) -> None:
        """Return when `version` is not the current one any more. Cancel it."""
        while self.version == version:
            self._changed.clear()
            await self._changed.wait()

    def _note_change(self) -> None:
        self.version += 1
        self._changed.set()

    async def aclose(self) -> None:
        """Disconnect from all of them, in parallel."""
        await asyncio.gather(*(server.stop() for server in self), return_exceptions=True)


def _first_state(name: str, disabled: Collection[str], unapproved: Collection[str]) -> ServerState:
    if name in unapproved:
        return "unapproved"
    return "disabled" if name in disabled else "waiting"
