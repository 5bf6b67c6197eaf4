"""`agentcli mcp`: add, list, show, remove, test and serve MCP servers. `build` registers all sub-commands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.output import echo, echo_json, notice
from agentcli.cli.permissions import AsJson, Trust, table_option, takes_rights
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line, show_name

if TYPE_CHECKING:
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.mcp import FoundServers
    from agentcli.config.save import ServerKeeper
    from agentcli.mcp.configuration import ServerConfig
    from agentcli.mcp.protocol import PromptOffer
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers


_LOG_LINES = 10
"""Last lines of a server's log in the JSON output."""
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server's name.", show_default=False)]
ConfigFlag = Annotated[list[str] | None, table_option("--mcp-config")]


def environment_here(
    trust: bool = False, config: list[str] | None = None, *, opens_browser: bool = False
) -> Environment:
    from agentcli.assemble import Options
    from agentcli.assemble.environment import Environment

    return Environment(
        Options(
            cwd=Path.cwd(),
            environ=os.environ,
            trust=trust,
            mcp_config=tuple(config or ()),
            interactive=opens_browser,
        )
    )


def configured_servers(env: Environment) -> FoundServers:
    """The configured servers. Prints problems of the configuration."""
    from agentcli.assemble.mcp import find_servers

    found = find_servers(env)
    for problem in (*(each.text for each in env.notices if each.level == "warning"), *found.problems):
        notice(problem)
    return found


def find_named_server(env: Environment, found: FoundServers, name: str) -> ServerConfig:
    """The server with this name. Raises `UsageError` if there is none."""
    for config in found.configs:
        if config.name == name:
            return config
    known = ", ".join(config.name for config in found.configs)
    problem = f"There is no MCP server {name!r}. " + (f"There are: {known}." if known else "None is configured.")
    raise UsageError(" ".join(filter(None, (problem, describe_ignored_servers(env)))))


def find_approved_server(env: Environment, name: str) -> ServerConfig:
    """The server with this name, if it may be started. Raises `AgentError`."""
    found = configured_servers(env)
    server = find_named_server(env, found, name)
    if name in found.unapproved:
        raise AgentError(
            f"{name} is a server of this repository and not approved. Run `agentcli trust`, or use --trust."
        )
    return server


def describe_ignored_servers(env: Environment) -> str:
    """A sentence about servers in the project's settings if they are ignored because the folder is not trusted."""
    from agentcli.config.paths import PROJECT_FOLDER

    parts = [(Path(part.name), part.text) for part in env.trust_state.parts]
    names = [str(path) for path, text in parts if path.parent.name == PROJECT_FOLDER and '"mcpServers"' in text]
    if env.options.trust or env.trust_state.usable or not names:
        return ""
    which = plain_line(" and ".join(names), 200)
    return f"Servers in {which} are ignored because this folder is not trusted. Run `agentcli trust`, or use --trust."


@takes_rights
def serve(
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Only these tools, separated by commas.")
    ] = None,
    *,
    flags: list[str],
) -> None:
    """Offer the tools of agentcli to another program over standard input and output, as an MCP server. Permission
    rules, hooks and the sandbox apply. A call that needs approval asks through the other program if it can ask, else it
    is denied.

    agentcli mcp serve  offer the tools of agentcli to another program
    """
    from agentcli.assemble import build_engine
    from agentcli.cli.flags import parse
    from agentcli.cli.invocation import build_options

    chosen = [] if tools is None else [f"--tools={tools}"]
    options = build_options(parse([*flags, *chosen]), Path.cwd())
    # Its own MCP servers are never started: this one may be among them.
    options = replace(options, interactive=False, persist=False, key_needed=False, strict_mcp_config=True)

    async def main() -> None:
        from agentcli.mcp.tool_server import serve_stdio

        async with build_engine(options) as engine:
            await serve_stdio(engine.tool_host())

    asyncio.run(main())


_Scope = Annotated[str | None, table_option("--scope")]


# ------------------------------------------------------------------------------------------------------- add, remove


def add(
    name: ServerName,
    target: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL | -- COMMAND ARGS…", help="Its address, or the command that starts it."),
    ] = None,
    scope: _Scope = None,
    transport: Annotated[str | None, table_option("--transport")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="Variable of the command; repeatable.", metavar="NAME=VALUE")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="Header of the requests; repeatable.", metavar="NAME: VALUE"),
    ] = None,
) -> None:
    """Add a server: an address, or a command after `--`.

    Scopes: local (the default) is for you in this project, user for you in all projects, project is shared in
    .mcp.json.

    agentcli mcp add files -- npx -y some-files-server .                 a command, for you in this project
    agentcli mcp add api https://api.example.com/mcp --scope user        an address, in all projects
    agentcli mcp add db --scope project -e URL='${DB_URL}' -- db-server  shared, in .mcp.json
    """
    entry = entry_from(target or [], transport, env or [], header or [])
    _save(name, entry, scope)


def add_json(
    name: ServerName,
    text: Annotated[str, typer.Argument(metavar="JSON", help="The server's entry.", show_default=False)],
    scope: _Scope = None,
) -> None:
    """Add a server from its JSON entry, such as {"type": "http", "url": "https://…"}."""
    from agentcli.config.files import parse_document

    document = parse_document(text.encode("utf-8", "surrogatepass"), "JSON")
    if document.values is None:
        raise UsageError(document.problems[0].text)
    if "mcpServers" in document.values:
        raise UsageError('Give one server\'s entry, without {"mcpServers": …} around it.')
    _save(name, document.values, scope)


def remove(name: ServerName, scope: _Scope = None) -> None:
    """Remove a server from your configuration.

    agentcli mcp remove files  remove it
    """
    keeper = _keeper(environment_here())
    scopes = keeper.scopes_of(name)
    if scope is None and len(scopes) > 1:
        raise UsageError(f"{name} is in several scopes: {', '.join(scopes)}. Choose one with --scope.")
    if scope is None and not scopes:
        raise UsageError(f"There is no MCP server {name!r} in your configuration. agentcli mcp list shows all.")
    path = keeper.change(scope or scopes[0], name, None)
    echo(f"Removed {show_name(name)} from {show_name(path)}")


def entry_from(target: list[str], transport: str | None, env: list[str], headers: list[str]) -> dict[str, Any]:
    """The entry for the arguments of `mcp add`. Raises `UsageError`."""
    if not target:
        raise UsageError("Give an address, or -- and a command: agentcli mcp add NAME -- npx -y some-server")
    is_address = len(target) == 1 and target[0].startswith(("http://", "https://"))
    kind = transport or ("http" if is_address else "stdio")
    if kind == "stdio":
        if headers:
            raise UsageError("--header is for an address. A command gets variables: --env NAME=VALUE.")
        variables = dict(_pair(text, "=", "--env NAME=VALUE") for text in env)
        return {"command": target[0], "args": target[1:], **({"env": variables} if variables else {})}
    if env:
        raise UsageError("--env is for a command. Requests get headers: --header 'NAME: VALUE'.")
    if len(target) != 1:
        raise UsageError(f"A server over {kind} has one address and no arguments.")
    given = dict(_pair(text, ":", "--header 'NAME: VALUE'") for text in headers)
    return {"type": kind, "url": target[0], **({"headers": given} if given else {})}


def _pair(text: str, separator: str, usage: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise UsageError(f"Expected {usage}, not {plain_line(text, 40)!r}.")
    return name.strip(), value if separator == "=" else value.strip()


def _save(name: str, entry: Mapping[str, Any], scope: str | None) -> None:
    from agentcli.mcp.configuration import parse_servers

    env = environment_here()
    parsed = parse_servers({name: entry}, "user", "mcp add", env.environ)
    if not parsed.configs:
        raise UsageError(f"{parsed.problems[0].reason} Nothing was saved.")
    for problem in parsed.problems:
        notice(problem.text)
    keeper, where = _keeper(env), scope or "local"
    path = keeper.change(where, name, entry)
    echo(f"Added {name} to {show_name(path)}")
    if where != "user" and not keeper.trust.state(env.cwd).usable:
        echo("It starts when you trust this project: run `agentcli trust`.")
    else:
        echo(f"Try it: agentcli mcp test {name}")


def _keeper(env: Environment) -> ServerKeeper:
    from agentcli.assemble.mcp import PROJECT_FILE
    from agentcli.config.paths import project_folder
    from agentcli.config.save import ServerKeeper
    from agentcli.config.trust import trust_root

    paths = {"local": project_folder(env.cwd) / "settings.local.json", "project": trust_root(env.cwd) / PROJECT_FILE}
    if env.paths.user_settings is not None:
        paths["user"] = env.paths.user_settings
    return ServerKeeper(paths, env.trust, env.cwd)


# ------------------------------------------------------------------------------------------------- list, get, test


def list_servers(
    connect: Annotated[
        bool,
        typer.Option("--connect/--no-connect", help="Connect to each (the default), or only list them: --no-connect."),
    ] = True,
    trust: Trust = False,
    config: ConfigFlag = None,
    as_json: AsJson = False,
) -> None:
    """List all servers with their state. Connects to each, except to unapproved ones of a repository.

    agentcli mcp list  all servers and their state
    """
    from agentcli.commands.mcp_listing import overview

    env = environment_here(trust, config)
    found = configured_servers(env)
    if ignored := describe_ignored_servers(env):
        notice(ignored)
    if not found.configs and not as_json:
        echo("No MCP servers. To add one: agentcli mcp add NAME -- COMMAND, or agentcli mcp add NAME URL", err=True)
        return

    async def look() -> list[Json] | str:
        async with open_servers(env, found) as servers:
            if connect:
                servers.start()
                await servers.wait_for_start(servers.limits.start_seconds + 1)
            return [_server_record(server) for server in servers] if as_json else overview(list(servers))

    listed = asyncio.run(look())
    if isinstance(listed, list):
        echo_json(listed)
        return
    echo(listed)
    if found.unapproved:
        echo("`agentcli trust` reviews the servers that are not approved.")


def get(name: ServerName, trust: Trust = False, config: ConfigFlag = None, as_json: AsJson = False) -> None:
    """Show a server's configuration. Values that may be secrets are masked."""
    from agentcli.mcp.configuration import show_fields

    env = environment_here(trust, config)
    found = configured_servers(env)
    server = find_named_server(env, found, name)
    fields = dict(show_fields(server))
    approved = "waits for approval" if name in found.unapproved else ""
    if as_json:
        record = {"name": name, "type": server.kind, "source": server.source, "origin": server.origin}
        echo_json({**record, "approved": not approved, "fields": fields})
        return
    echo(f"{name}  {server.kind}  {server.origin or server.source}{f'  ({approved})' if approved else ''}")
    for label, text in fields.items():
        echo(f"  {plain_line(label, 80)}: {plain_line(text, 4_000)}")
    for weaker in found.hidden:
        if weaker.name == name:
            echo(f"  hides the one in {plain_line(weaker.origin)}")


def try_server(name: ServerName, trust: Trust = False, config: ConfigFlag = None, as_json: AsJson = False) -> None:
    """Connect to a server and show what it offers. Exit code 1 if that fails.

    agentcli mcp test files  connect and show what it offers
    """
    from agentcli.assemble.mcp import FoundServers
    from agentcli.commands.mcp_listing import details

    env = environment_here(trust, config)
    found = FoundServers((find_approved_server(env, name),))

    async def look() -> str:
        async with open_servers(env, found) as servers:
            [server] = servers
            began = time.monotonic()
            servers.start()
            await server.enable()
            await servers.wait_for_start(servers.limits.start_seconds + 1)
            seconds = time.monotonic() - began
            if as_json:
                echo_json(_offer_record(server, seconds))
            else:
                echo("\n".join([*details(server, [server], advises=False), "", f"Took {duration(seconds)}."]))
            return server.state

    if asyncio.run(look()) != "connected":
        raise typer.Exit(1)


def _server_record(server: McpServer) -> Json:
    """A server as `mcp list --json` prints it."""
    from agentcli.mcp.configuration import show_target

    return {
        "name": server.name,
        "state": server.state,
        "type": server.config.kind,
        "target": show_target(server.config),
        "source": server.config.source,
        "origin": server.config.origin,
        "error": server.error,
        "tools": len(server.offers.tools),
        "resources": len(server.offers.resources),
        "prompts": len(server.offers.prompts),
    }


def _offer_record(server: McpServer, seconds: float) -> Json:
    """A server with everything it offers, for `mcp test --json`. `seconds`: how long connecting took."""
    offers = server.offers
    return {
        **_server_record(server),
        "seconds": round(seconds, 3),
        "protocol": offers.protocol,
        "server": {"name": offers.name, "version": offers.version},
        "instructions": offers.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "read_only": tool.read_only,
            }
            for tool in offers.tools
        ],
        "resources": [{"uri": resource.uri, "name": resource.name} for resource in offers.resources],
        "prompts": [{"name": prompt.name, "arguments": _argument_names(prompt)} for prompt in offers.prompts],
        "log": list(server.log)[-_LOG_LINES:],
    }


def _argument_names(prompt: PromptOffer) -> list[str]:
    return [argument.name if argument.required else f"{argument.name}?" for argument in prompt.arguments]


def reset_project_choices() -> None:
    """Forget which servers and tools you switched on or off in this project."""
    from agentcli.config.trust import trust_root
    from agentcli.mcp.servers import ChoiceStore

    env = environment_here()
    had_some = ChoiceStore(env.paths.state_dir, trust_root(env.cwd)).forget()
    echo("Reset: servers and tools of this project are on or off as configured." if had_some else "There were none.")
    echo("To withdraw the approval of a repository's servers: agentcli trust --remove")


@asynccontextmanager
async def open_servers(env: Environment, found: FoundServers) -> AsyncIterator[McpServers]:
    """The servers, not connected yet; they are closed at the end."""
    from agentcli.assemble.mcp import make_servers
    from agentcli.mcp.protocol import ServerRequests

    servers = make_servers(env, found, ServerRequests())
    try:
        yield servers
    finally:
        await servers.aclose()
