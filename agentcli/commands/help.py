"""/help: list commands, or explain one."""

from __future__ import annotations

import textwrap

from agentcli.agent.engine import Engine
from agentcli.commands.base import Command
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.registry import find, near, rows
from agentcli.core.errors import UsageError

READ_ON = (
    ("/help COMMAND", "Explain one command, with examples"),
    ("/doctor", "Check this installation and suggest fixes"),
    ("agentcli --help", "List all command-line flags, with examples"),
    ("README", "Guide, and reference of settings, files and variables"),
)
"""Further sources of help, listed below the commands."""
COLUMNS = 79
MAX_NAME_COLUMNS = 21


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """In the app, ? on an empty prompt also lists all keys. Type to search.

    /help          list all commands
    /help compact  explain one command
    """
    if not arguments and front_end.has_pages:
        if usage := await front_end.page("help"):
            front_end.prefill(f"{usage.split()[0]} ")
        return None
    if not arguments:
        lines = [*_table([(one.usage, one.described) for one in rows(engine)]), "", *_table(READ_ON)]
        return "\n".join([*lines, "", front_end.keys] if front_end.keys else lines)
    name = arguments.removeprefix("/")
    command = find(name, engine)
    if command is None:
        meant = near(name, engine)
        hint = f" Did you mean /{meant[0]}?" if meant else " /help lists all commands."
        raise UsageError(f"There is no command /{name}.{hint}")
    return "\n".join(manual_lines(command))


def manual_lines(command: Command) -> list[str]:
    also = f" (also {', '.join(f'/{alias}' for alias in command.aliases)})" if command.aliases else ""
    return [f"{command.usage}{also}", f"{command.summary}.", *command.manual.splitlines()]


def _table(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    """Two columns, wrapped between words for an 80-column screen; a long name gets its own line."""
    width = min(MAX_NAME_COLUMNS, max(len(name) for name, _text in rows))
    lines: list[str] = []
    for name, text in rows:
        first, *more = textwrap.wrap(text, COLUMNS - width - 2)
        if len(name) > width:
            lines.append(name)
            name = ""
        lines += [f"{name:<{width}}  {first}", *(f"{'':<{width}}  {rest}" for rest in more)]
    return lines
