"""`agentcli mcp`: add, list, show, remove, test and serve MCP servers. `build` registers all sub-commands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentcli.cli import COMMANDS
from agentcli.cli.flags import MCP_SCOPES, MCP_TRANSPORTS
from agentcli.cli.output import echo, echo_json, notice
from agentcli.cli.permissions import AsJson, takes_rights
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line, shown_name

if TYPE_CHECKING:
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.mcp import FoundServers
    from agentcli.config.save import ServerKeeper
    from agentcli.mcp.configuration import ServerConfig
    from agentcli.mcp.protocol import PromptOffer
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers


T = TypeVar("T")
_LOG_LINES = 10
"""Last lines of a server's log in the JSON output."""
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server's name.", show_default=False)]
TrustFlag = Annotated[bool, typer.Option("--trust", help="Treat this folder as trusted.")]
ConfigFlag = Annotated[
    list[str] | None,
    typer.Option("--mcp-config", help="Also the servers of a file or JSON text.", metavar="JSON|FILE"),
]


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


def named_server(env: Environment, found: FoundServers, name: str) -> ServerConfig:
    """The server with this name. Raises `UsageError` if there is none."""
    for config in found.configs:
        if config.name == name:
            return config
    known = ", ".join(config.name for config in found.configs)
    problem = f"There is no MCP server {name!r}. " + (f"There are: {known}." if known else "None is configured.")
    raise UsageError(" ".join(filter(None, (problem, ignored_servers(env)))))


def approved_server(env: Environment, name: str) -> ServerConfig:
    """The server with this name, if it may be started. Raises `AgentError`."""
    found = configured_servers(env)
    server = named_server(env, found, name)
    if name in found.unapproved:
        raise AgentError(
            f"{name} is a server of this repository and not approved. Run `agentcli trust`, or use --trust."
        )
    return server


def ignored_servers(env: Environment) -> str:
    """A sentence about servers in the project's settings if they are ignored because the folder is not trusted."""
    from agentcli.config.paths import PROJECT_FOLDER

    parts = [(Path(part.name), part.text) for part in env.trust_state.parts]
    names = [str(path) for path, text in parts if path.parent.name == PROJECT_FOLDER and '"mcpServers"' in text]
    if env.options.trust or env.trust_state.usable or not names:
        return ""
    which = plain_line(" and ".join(names), 200)
    return f"Servers in {which} are ignored because this folder is not trusted. Run `agentcli trust`, or use --trust."


SERVE_HELP = (
    "Offer the tools of agentcli to another program over standard input and output, as an MCP server. Permission "
    "rules, hooks and the sandbox apply. A call that needs approval asks through the other program if it can ask, "
    "else it is denied."
)


@takes_rights
def serve(
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Only these tools, separated by commas.")
    ] = None,
    *,
    flags: list[str],
) -> None:
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


_ADD_HELP = """Add a server: an address, or a command after `--`.

Scopes: local (the default) is for you in this project, user for you in all projects, project is shared in .mcp.json."""
_ADD_JSON_HELP = 'Add a server from its JSON entry, such as {"type": "http", "url": "https://…"}.'
_LIST_HELP = "List all servers with their state. Connects to each, except to unapproved ones of a repository."
_GET_HELP = "Show a server's configuration. Values that may be secrets are masked."
_REMOVE_HELP = "Remove a server from your configuration."
_TEST_HELP = "Connect to a server and show what it offers. Exit code 1 if that fails."
_RESET_HELP = "Forget which servers and tools you switched on or off in this project."

_Scope = Annotated[
    str | None,
    typer.Option(
        "--scope", "-s", help=f"{', '.join(MCP_SCOPES[:-1])} or {MCP_SCOPES[-1]}.", metavar="SCOPE", show_default=False
    ),
]


def build() -> typer.Typer:
    from agentcli.cli import mcp_login

    app = typer.Typer(help=COMMANDS["mcp"], rich_markup_mode=None, no_args_is_help=True)
    app.command("add", help=_ADD_HELP)(add)
    app.command("add-json", help=_ADD_JSON_HELP)(add_json)
    app.command("list", help=_LIST_HELP)(list_servers)
    app.command("get", help=_GET_HELP)(get)
    app.command("remove", help=_REMOVE_HELP)(remove)
    app.command("test", help=_TEST_HELP)(try_server)
    app.command("reset-project-choices", help=_RESET_HELP)(reset_project_choices)
    app.command("serve", help=SERVE_HELP)(serve)
    mcp_login.register(app)
    return app


# ------------------------------------------------------------------------------------------------------- add, remove


def add(
    name: ServerName,
    target: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL | -- COMMAND ARGS…", help="Its address, or the command that starts it."),
    ] = None,
    scope: _Scope = None,
    transport: Annotated[
        str | None,
        typer.Option("--transport", "-t", help="stdio, http or sse. Default: http for an address.", metavar="KIND"),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="Variable of the command; repeatable.", metavar="NAME=VALUE")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="Header of the requests; repeatable.", metavar="NAME: VALUE"),
    ] = None,
) -> None:
    entry = entry_from(target or [], transport, env or [], header or [])
    _save(name, entry, scope)


def add_json(
    name: ServerName,
    text: Annotated[str, typer.Argument(metavar="JSON", help="The server's entry.", show_default=False)],
    scope: _Scope = None,
) -> None:
    from agentcli.config.files import parse_document

    document = parse_document(text.encode("utf-8", "surrogatepass"), "JSON")
    if document.values is None:
        raise UsageError(document.problems[0].text)
    if "mcpServers" in document.values:
        raise UsageError('Give one server\'s entry, without {"mcpServers": …} around it.')
    _save(name, document.values, scope)


def remove(name: ServerName, scope: _Scope = None) -> None:
    keeper = _keeper(environment_here())
    scopes = keeper.scopes_of(name)
    if scope is None and len(scopes) > 1:
        raise UsageError(f"{name} is in several scopes: {', '.join(scopes)}. Choose one with --scope.")
    if scope is None and not scopes:
        raise UsageError(f"There is no MCP server {name!r} in your configuration. agentcli mcp list shows all.")
    path = keeper.change(_check_scope(scope) or scopes[0], name, None)
    echo(f"Removed {shown_name(name)} from {shown_name(path)}")


def entry_from(target: list[str], transport: str | None, env: list[str], headers: list[str]) -> dict[str, Any]:
    """The entry for the arguments of `mcp add`. Raises `UsageError`."""
    if not target:
        raise UsageError("Give an address, or -- and a command: agentcli mcp add NAME -- npx -y some-server")
    if transport is not None and transport not in MCP_TRANSPORTS:
        raise UsageError(f"--transport must be one of {', '.join(MCP_TRANSPORTS)}, not {transport!r}.")
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
    keeper, where = _keeper(env), _check_scope(scope) or "local"
    path = keeper.change(where, name, entry)
    echo(f"Added {name} to {shown_name(path)}")
    if where != "user" and not keeper.trust.state(env.cwd).usable:
        echo("It starts when you trust this project: run `agentcli trust`.")
    else:
        echo(f"Try it: agentcli mcp test {name}")


def _check_scope(scope: str | None) -> str | None:
    if scope is not None and scope not in MCP_SCOPES:
        raise UsageError(f"--scope must be one of {', '.join(MCP_SCOPES)}, not {scope!r}.")
    return scope


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
    trust: TrustFlag = False,
    config: ConfigFlag = None,
    as_json: AsJson = False,
) -> None:
    from agentcli.commands.mcp_listing import overview

    env = environment_here(trust, config)
    found = configured_servers(env)
    if ignored := ignored_servers(env):
        notice(ignored)
    if not found.configs and not as_json:
        echo("No MCP servers. To add one: agentcli mcp add NAME -- COMMAND, or agentcli mcp add NAME URL", err=True)
        return

    def report(servers: McpServers) -> list[Json] | str:
        return [_server_record(server) for server in servers] if as_json else overview(list(servers))

    listed = _with_servers(env, found, report, connect=connect)
    if isinstance(listed, list):
        echo_json(listed)
        return
    echo(listed)
    if found.unapproved:
        echo("`agentcli trust` reviews the servers that are not approved.")


def get(name: ServerName, trust: TrustFlag = False, config: ConfigFlag = None, as_json: AsJson = False) -> None:
    from agentcli.mcp.configuration import shown_fields

    env = environment_here(trust, config)
    found = configured_servers(env)
    server = named_server(env, found, name)
    fields = dict(shown_fields(server))
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


def try_server(name: ServerName, trust: TrustFlag = False, config: ConfigFlag = None, as_json: AsJson = False) -> None:
    from agentcli.assemble.mcp import FoundServers
    from agentcli.commands.mcp_listing import details

    env = environment_here(trust, config)
    server = approved_server(env, name)
    began = time.monotonic()

    def report(servers: McpServers) -> tuple[str, Json | list[str]]:
        [one] = servers
        seconds = time.monotonic() - began
        if as_json:
            return one.state, _offer_record(one, seconds)
        return one.state, [*details(one, [one], advises=False), "", f"Took {duration(seconds)}."]

    state, shown = _with_servers(env, FoundServers((server,)), report, switched_on=True)
    if isinstance(shown, list):
        echo("\n".join(shown))
    else:
        echo_json(shown)
    if state != "connected":
        raise typer.Exit(1)


def _server_record(server: McpServer) -> Json:
    """A server as `mcp list --json` prints it."""
    from agentcli.mcp.configuration import shown_target

    return {
        "name": server.name,
        "state": server.state,
        "type": server.config.kind,
        "target": shown_target(server.config),
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
    from agentcli.config.trust import trust_root
    from agentcli.mcp.servers import ChoiceStore

    env = environment_here()
    had_some = ChoiceStore(env.paths.state_dir, trust_root(env.cwd)).forget()
    echo("Reset: servers and tools of this project are on or off as configured." if had_some else "There were none.")
    echo("To withdraw the approval of a repository's servers: agentcli trust --remove")


def _with_servers(
    env: Environment,
    found: FoundServers,
    report: Callable[[McpServers], T],
    *,
    connect: bool = True,
    switched_on: bool = False,
) -> T:
    """Connect to the servers, make the report, and disconnect. `switched_on`: also those that are disabled."""
    from agentcli.assemble.mcp import make_servers
    from agentcli.mcp.protocol import ServerRequests

    async def work() -> T:
        servers = make_servers(env, found, ServerRequests())
        try:
            if connect:
                servers.start()
                for server in servers:
                    if switched_on:
                        await server.enable()
                await servers.wait_for_start(servers.limits.start_seconds + 1)
            return report(servers)
        finally:
            await servers.aclose()

    return asyncio.run(work())
