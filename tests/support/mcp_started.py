"""Start the hostile servers of tests/support/mcp_hostile.py with short limits."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import ServerLimits
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.server import McpServer

SCRIPT = Path(__file__).parent / "mcp_hostile.py"
SHORT = ServerLimits(start_seconds=20, call_seconds=20, restarts=0, debounce_seconds=0.01, refresh_seconds=0.01)


def hostile(mode: str, **more: Any) -> ServerConfig:
    return ServerConfig("bad", "stdio", command=sys.executable, args=("-S", str(SCRIPT), mode), **more)


@asynccontextmanager
async def started(
    mode: str | ServerConfig, environ: Mapping[str, str] | None = None, **changed: Any
) -> AsyncIterator[tuple[McpServer, list[str]]]:
    """The server when its start has ended, and the states that it had."""
    states: list[str] = []
    config = hostile(mode) if isinstance(mode, str) else mode
    around = ServerSurroundings(Path.cwd(), environ or {"PATH": os.defpath})
    server = McpServer(
        config, around, ServerRequests(), replace(SHORT, **changed), on_change=lambda: states.append(server.state)
    )
    server.start()
    try:
        await until(lambda: server.start_ended)
        yield server, states
    finally:
        await server.stop()


async def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that an event of the system brings about."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)
