"""Look up configured MCP servers for the `agentcli mcp` commands; flags that these share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.output import notice
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.mcp import FoundServers
    from agentcli.mcp.configuration import ServerConfig

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


def ignored_servers(env: Environment) -> str:
    """A sentence about servers in the project's settings if they are ignored because the folder is not trusted."""
    from agentcli.config.paths import PROJECT_FOLDER

    parts = [(Path(part.name), part.text) for part in env.trust_state.parts]
    names = [str(path) for path, text in parts if path.parent.name == PROJECT_FOLDER and '"mcpServers"' in text]
    if env.options.trust or env.trust_state.usable or not names:
        return ""
    which = plain_line(" and ".join(names), 200)
    return f"Servers in {which} are ignored because this folder is not trusted. Run `agentcli trust`, or use --trust."
