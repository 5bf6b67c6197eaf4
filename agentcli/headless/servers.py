"""Wait for MCP servers before the first prompt of a headless run, and report those that did not connect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.headless.output import Notices

if TYPE_CHECKING:
    from agentcli.mcp.servers import McpServers

_QUIET_SECONDS = 2.0
"""Shorter waits are not reported."""
_GRACE_SECONDS = 5.0
"""Added to the wait, so that a server that exceeds its own time limit, which begins a little later, has failed by
then."""


async def wait_for_servers(servers: McpServers, stopped: asyncio.Event, notices: Notices) -> None:
    """Start all servers and wait until each is connected or has failed, at most for `first_prompt_seconds`.

    `stopped` ends the wait."""
    servers.start()
    limits = servers.limits
    longest = limits.first_prompt_seconds
    grace = _GRACE_SECONDS if longest >= limits.start_seconds else 0.0
    settled = start_task(servers.wait_for_start(longest + grace))
    stop = start_task(stopped.wait())
    try:
        await asyncio.wait({settled, stop}, timeout=_QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not settled.done() and not stop.done():
            names = ", ".join(server.name for server in servers if not server.start_ended)
            notices.say(f"Waiting up to {longest:g} s for MCP servers: {names}. Ctrl+C stops.")
        await asyncio.wait({settled, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait([settled, stop])
    if not stopped.is_set():
        for server in servers:
            if problem := _problem(server.state, server.error):
                notices.say(f"MCP server {server.name} {problem}")


def _problem(state: str, error: str) -> str:
    match state:
        case "failed":
            return f"failed: {error or 'no reason given'}"
        case "needs-auth":
            return f"needs you to sign in: {error}" if error else "needs you to sign in."
        case "connecting":
            return "is still connecting; continuing without it. MCP_TIMEOUT sets how long to wait."
        case _:
            return ""
