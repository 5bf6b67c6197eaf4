"""`agentcli mcp serve`: offer the tools of agentcli to another program, as an MCP server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.permissions import AddDir, Allowed, Disallowed, Mode, Sandbox, SettingsText, Trust, flag_words

SERVE_HELP = (
    "Offer the tools of agentcli to another program over standard input and output, as an MCP server. Permission "
    "rules, hooks and the sandbox apply. A call that needs approval asks through the other program if it can ask, "
    "else it is denied."
)


def serve(
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Only these tools, separated by commas.")
    ] = None,
    mode: Mode = None,
    trust: Trust = False,
    sandbox: Sandbox = None,
    allowed: Allowed = None,
    disallowed: Disallowed = None,
    add_dir: AddDir = None,
    settings: SettingsText = None,
) -> None:
    from agentcli.assemble import build_engine
    from agentcli.cli.flags.invocation import build_invocation
    from agentcli.cli.flags.parse import parse

    words = flag_words(mode, trust, sandbox, allowed, disallowed, add_dir, settings)
    if tools is not None:
        words.append(f"--tools={tools}")
    options = build_invocation(parse(words), Path.cwd()).options
    # Its own MCP servers are never started: this one may be among them.
    options = replace(options, interactive=False, persist=False, key_needed=False, strict_mcp_config=True)

    async def main() -> None:
        from agentcli.mcp.tool_server import serve_stdio

        async with build_engine(options) as engine:
            await serve_stdio(engine.tool_host())

    asyncio.run(main())
