"""`agentcli mcp login` and `agentcli mcp logout`: sign in to an MCP server over HTTP, and out of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.mcp import ConfigFlag, ServerName, environment_here, find_approved_server, open_servers
from agentcli.cli.output import echo, notice
from agentcli.cli.permissions import Trust
from agentcli.core.errors import AgentError
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.assemble.environment import Environment
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers


_MAX_LINE = 65_536


def login(
    name: ServerName,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only show the address.")] = False,
    trust: Trust = False,
    config: ConfigFlag = None,
) -> None:
    """Sign in to a server over HTTP (OAuth). The address to visit is shown and opened in your browser.

    On a machine without a browser: open the address on another machine. After signing in, the browser there ends on a
    page that does not load; paste the address of that page here.

    The tokens are stored in the system's keyring if there is one, else in a file that only you can read. They are used
    only for this server's name and address. Exit code 1 if you are not signed in at the end.

    agentcli mcp login api  sign in to a server over HTTP
    """
    env = environment_here(trust, config, opens_browser=not no_browser)
    asyncio.run(_with_server(env, name, sign_in))


def logout(name: ServerName, trust: Trust = False, config: ConfigFlag = None) -> None:
    """Delete the tokens of a server, and revoke them if it supports that."""
    asyncio.run(_with_server(environment_here(trust, config), name, lambda _servers, server: sign_out(server)))


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


async def _with_server(env: Environment, name: str, work: Callable[[McpServers, McpServer], Awaitable[None]]) -> None:
    """Do the work with a server, without starting it. Raises `AgentError`."""
    from agentcli.assemble.mcp import FoundServers

    chosen = find_approved_server(env, name)
    async with open_servers(env, FoundServers((chosen,))) as servers:
        [server] = servers
        if not server.signs_in:
            own = " It has credentials in its configuration." if chosen.kind != "stdio" else ""
            raise AgentError(f"{name} has no sign-in.{own}")
        await work(servers, server)


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
