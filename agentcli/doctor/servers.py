"""Check whether MCP servers are approved and can be started. None is started or contacted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from agentcli.assemble.mcp import find_servers
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding


def servers(context: CheckContext) -> Iterator[Finding]:
    found = find_servers(context.environment)
    for problem in found.problems:
        yield Finding("warn", "mcp", problem, "Correct the entry; `agentcli mcp list` shows all servers.")
    if not found.configs:
        return
    from agentcli.mcp.configuration import shown_target

    for config in found.configs:
        what = f"{config.name} ({config.origin or config.source}): {shown_target(config)}"
        if config.name in found.unapproved:
            yield Finding("ok", "mcp", f"{what}, waits for approval", "`agentcli trust` shows what it starts and asks.")
        elif config.disabled:
            yield Finding("ok", "mcp", f"{what}, disabled")
        elif config.kind == "stdio" and not _has_program(context, config.command):
            advice = "Install it, or correct the command; agentcli searches PATH."
            yield Finding("warn", "mcp", f"{what}, the program was not found", advice)
        else:
            yield Finding("ok", "mcp", f"{what}; `agentcli mcp test {config.name}` tries it")


def _has_program(context: CheckContext, command: str) -> bool:
    if "/" in command:
        return shutil.which(str(context.environment.cwd / Path(command).expanduser())) is not None
    return shutil.which(command, path=context.environment.environ.get("PATH")) is not None
