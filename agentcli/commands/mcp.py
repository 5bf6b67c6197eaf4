"""/mcp: show the MCP servers of this session and their offers; reconnect, enable, disable, sign in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.mcp_listing import (
    PROBLEM_STATES,
    details,
    error_line,
    next_step,
    offer_counts,
    overview,
    server_name,
    state_word,
)
from agentcli.core.aio import Aborted, cancel_and_wait, start_task
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers

LATER = "The settings files have changed. New MCP servers are listed when the running prompt has ended."
NONE = "No MCP servers are configured. `agentcli mcp add` adds one."
USAGE = "Use /mcp, /mcp NAME, /mcp reconnect|login|logout NAME or /mcp enable|disable NAME [TOOL]."
SETTLE_SECONDS = 30.0
_PASTE = "If the last page does not load in the browser, paste its address: /mcp login {name} ADDRESS"
MAX_TOOLS = 500


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | AsyncGenerator[Event, None] | None:
    """MCP servers give the model further tools, and you prompts (/mcp__SERVER__PROMPT) and resources (@SERVER:URI).
    Names of tools in permission rules: mcp__SERVER or mcp__SERVER__TOOL.

    /mcp                    list the servers with their state
    /mcp NAME               show one server: tools, prompts, resources, error and log
    /mcp reconnect NAME     connect again
    /mcp disable NAME       disconnect, also in later sessions; enable connects again
    /mcp disable NAME TOOL  switch off one tool
    /mcp login NAME         sign in to a server; logout forgets the tokens
    """
    await engine.live_files.refresh_settings()
    servers, text = engine.session.mcp, arguments.strip()
    if servers is None or not list(servers):
        return LATER if engine.live_files.is_stale else NONE
    server = servers.get(text) if text else None
    if front_end.has_pages and (server is not None or not text):
        await front_end.page("mcp", servers, *([server] if server is not None else []))
        return None
    if not text:
        return f"{overview(list(servers))}\n\n/mcp NAME shows one server in full."
    if server is not None:
        return "\n".join(details(server, list(servers)))
    verb, _, rest = text.partition(" ")
    found = find_server(servers, rest.strip())
    if verb not in (*_ACTIONS, "login"):
        raise UsageError(f"There is no MCP server {plain_line(text, 80)}. {_names(servers)}")
    if found is None:
        missing = f"There is no MCP server {plain_line(rest, 80)}. {_names(servers)}"
        raise UsageError(missing if rest.strip() else USAGE)
    return _login(engine, servers, *found) if verb == "login" else await _ACTIONS[verb](engine, servers, *found)


def find_server(servers: McpServers, text: str) -> tuple[McpServer, str] | None:
    """Split text into the server it begins with and the rest."""
    for server in sorted(servers, key=lambda each: -len(each.name)):
        if text == server.name or text.startswith(f"{server.name} "):
            return server, text.removeprefix(server.name).strip()
    return None


def completions(servers: McpServers) -> Iterator[tuple[str, str]]:
    """Completions of the arguments: names, then actions, then tools."""
    for server in servers:
        yield server.name, state_word(server)
    for server in servers:
        name = server.name
        if server.state != "unapproved":
            yield f"reconnect {name}", state_word(server)
            yield (f"enable {name}", "connect to it") if server.state == "disabled" else (f"disable {name}", "")
        if server.signs_in:
            yield f"login {name}", "sign in"
            yield f"logout {name}", "forget the tokens"
    for server in servers:
        for tool in server.offers.tools[:MAX_TOOLS]:
            verb = "enable" if tool.name in server.disabled_tools else "disable"
            yield f"{verb} {server.name} {tool.name}", plain_line(tool.description, 80)


def _names(servers: McpServers) -> str:
    return f"Servers: {', '.join(server_name(server) for server in servers)}."


# --------------------------------------------------------------------------------------------------------- actions


def outcome(server: McpServer) -> str:
    """One sentence about a server after an action."""
    error, counts = error_line(server), offer_counts(server)
    more = f": {error}" if error else f", {counts}" if counts else ""
    verb = "" if server.state in PROBLEM_STATES else "is "
    return f"{server_name(server)} {verb}{state_word(server)}{more}"


async def _wait_for_start(engine: Engine, servers: McpServers, server: McpServer) -> str:
    """Wait until a server has connected or failed, and report it. Raises `AgentError` if it has failed."""

    async def settle() -> None:
        async with asyncio.timeout(SETTLE_SECONDS):
            while not server.start_ended:
                await servers.wait_for_change(servers.version)

    try:
        await _stoppable(engine, settle())
    except (TimeoutError, Aborted):
        return outcome(server)
    if server.state in PROBLEM_STATES:
        raise AgentError(f"{outcome(server)}. {next_step(server)}".rstrip())
    return outcome(server)


async def _stoppable(engine: Engine, work: Awaitable[None]) -> None:
    signal = engine.session.command_signal
    await (work if signal is None else signal.run(work))


async def _reconnect(engine: Engine, servers: McpServers, server: McpServer, rest: str) -> str:
    if rest:
        raise UsageError(USAGE)
    if server.state in ("unapproved", "disabled"):
        raise UsageError(f"{server_name(server)} is {state_word(server)}. {next_step(server)}")
    await server.reconnect()
    return await _wait_for_start(engine, servers, server)


async def _enable(engine: Engine, servers: McpServers, server: McpServer, rest: str) -> str:
    if rest:
        return await _set_tool(servers, server, rest, on=True)
    if server.state == "unapproved":
        raise UsageError(f"{server_name(server)} is not approved. {next_step(server)}")
    await servers.set_enabled(server.name, True)
    return await _wait_for_start(engine, servers, server)


async def _disable(_engine: Engine, servers: McpServers, server: McpServer, rest: str) -> str:
    if rest:
        return await _set_tool(servers, server, rest, on=False)
    await servers.set_enabled(server.name, False)
    return f"{server_name(server)} is disabled."


async def _set_tool(servers: McpServers, server: McpServer, tool: str, *, on: bool) -> str:
    if not any(offer.name == tool for offer in server.offers.tools) and tool not in server.disabled_tools:
        raise UsageError(f"{server_name(server)} has no tool {plain_line(tool, 80)}.")
    await servers.set_tool_enabled(server.name, tool, on)
    return f"The tool {plain_line(tool, 80)} of {server_name(server)} is {'on' if on else 'off'}."


async def _login(engine: Engine, servers: McpServers, server: McpServer, rest: str) -> AsyncGenerator[Event, None]:
    """Sign in. `rest`: the redirect address, pasted because the browser could not reach this machine."""
    _check_sign_in(server)
    if rest:
        with _report_failures():
            server.paste(rest)
        return
    addresses: asyncio.Queue[str] = asyncio.Queue()
    work = start_task(_stoppable(engine, server.sign_in(addresses.put_nowait)))
    try:
        while not work.done():
            shown = start_task(addresses.get())
            await asyncio.wait({work, shown}, return_when=asyncio.FIRST_COMPLETED)
            if shown.done():
                yield say(
                    f"Sign in here: {plain_line(shown.result(), 4000)}\n{_PASTE.format(name=server_name(server))}"
                )
            else:
                await cancel_and_wait([shown])
        with _report_failures():
            work.result()
    except Aborted:
        yield say("The sign-in was cancelled.")
        return
    finally:
        await cancel_and_wait([work])
    yield say(await _wait_for_start(engine, servers, server))


async def _logout(_engine: Engine, _servers: McpServers, server: McpServer, _rest: str) -> str:
    _check_sign_in(server)
    with _report_failures():
        await server.sign_out()
    return f"The tokens for {server_name(server)} are removed."


def _check_sign_in(server: McpServer) -> None:
    if not server.signs_in:
        raise UsageError(f"{server_name(server)} has no sign-in.")


@contextmanager
def _report_failures() -> Iterator[None]:
    """Re-raise a server's failure as an `AgentError` of the command."""
    try:
        yield
    except McpFailure as error:
        raise AgentError(plain_line(str(error), 400)) from None


_Action = Callable[[Engine, McpServers, McpServer, str], Awaitable[str]]
_ACTIONS: Mapping[str, _Action] = {
    "reconnect": _reconnect,
    "enable": _enable,
    "disable": _disable,
    "logout": _logout,
}
