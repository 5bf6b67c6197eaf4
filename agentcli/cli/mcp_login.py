"""`agentcli mcp login` and `agentcli mcp logout`: sign in to an MCP server over HTTP, and out of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agentcli.cli.flags import Parsed
from agentcli.cli.mcp import approved_server, environment_here
from agentcli.cli.output import echo, notice
from agentcli.core.errors import AgentError
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers

_MAX_LINE = 65_536


def login(given: Parsed) -> None:
    asyncio.run(_with_server(given, sign_in, opens_browser=not given.get("no_browser")))


def logout(given: Parsed) -> None:
    asyncio.run(_with_server(given, lambda _servers, server: sign_out(server), opens_browser=False))


async def sign_in(servers: McpServers, server: McpServer) -> None:
    """Show the address, accept a pasted redirect address meanwhile, and report whether the server connects."""
    from agentcli.mcp.connection import McpFailure

    name = plain_line(server.name, 80)

    def show(address: str) -> None:
        echo(f"Visit this address to sign in to {name}:\n\n  {plain_line(address, 8_000)}\n")
        if sys.stdin.isatty():
            echo("If the last page does not load in the browser, paste its address here.")

    def paste(line: str) -> None:
        try:
            server.paste(line)
        except McpFailure as failure:
            notice(str(failure))

    try:
        with _lines_of_stdin(paste):
            await server.sign_in(show)
    except McpFailure as failure:
        raise AgentError(f"Not signed in to {name}. {failure}") from None
    await servers.wait_for_start(servers.limits.start_seconds + 1)
    if server.state == "connected":
        echo(f"Signed in to {name}: {counted(len(server.offers.tools), 'tool')}.")
    elif server.state == "disabled":
        echo(f"Signed in to {name}, which is disabled.")
    else:
        raise AgentError(f"Signed in to {name}, but it cannot be used: {plain_line(server.error, 400)}")


async def sign_out(server: McpServer) -> None:
    from agentcli.mcp.connection import McpFailure

    try:
        await server.sign_out()
    except McpFailure as failure:
        raise AgentError(str(failure)) from None
    echo(f"Signed out of {plain_line(server.name, 80)}.")


async def _with_server(
    given: Parsed, work: Callable[[McpServers, McpServer], Awaitable[None]], *, opens_browser: bool
) -> None:
    """Do the work with the named server, without starting it. Raises `AgentError`."""
    from agentcli.assemble.mcp import FoundServers, make_servers
    from agentcli.mcp.protocol import ServerRequests

    env = environment_here(given, opens_browser=opens_browser)
    chosen = approved_server(env, given)
    servers = make_servers(env, FoundServers((chosen,)), ServerRequests())
    [server] = servers
    if not server.signs_in:
        own = " It has credentials in its configuration." if chosen.kind != "stdio" else ""
        raise AgentError(f"{server.name} has no sign-in.{own}")
    try:
        await work(servers, server)
    finally:
        await servers.aclose()


@contextmanager
def _lines_of_stdin(take: Callable[[str], None]) -> Iterator[None]:
    """Call `take` with every line of standard input during the block. Does nothing if it cannot be polled."""
    loop = asyncio.get_running_loop()
    pending = bytearray()
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):
        yield
        return

    def read() -> None:
        data = os.read(descriptor, _MAX_LINE)
        pending.extend(data)
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest[:_MAX_LINE]
        if not data:
            loop.remove_reader(descriptor)
            lines.append(rest)
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                take(text)

    # A regular file cannot be polled.
    with suppress(OSError):
        loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        with suppress(OSError):
            loop.remove_reader(descriptor)
