"""/help: what commands there are, or more about one of them."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.manual import READ_ON, page_lines
from agentcli.commands.registry import COMMANDS, find, near
from agentcli.core.events import Event

COLUMNS = 79
WIDEST_NAME = 21


async def run(_engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    if not arguments:
        yield say("\n".join([*_table([(one.usage, one.summary) for one in COMMANDS]), "", *_table(READ_ON)]))
        return
    name = arguments.removeprefix("/")
    command = find(name)
    if command is None:
        meant = near(name)
        hint = f" Did you mean /{meant[0]}?" if meant else " /help lists them all."
        yield fail(f"There is no command /{name}.{hint}")
        return
    yield say("\n".join(page_lines(command)))


def _table(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    """Two columns that no usual screen breaks in the midst of a word; a long name has a line to itself."""
    width = min(WIDEST_NAME, max(len(name) for name, _text in rows))
    lines: list[str] = []
    for name, text in rows:
        first, *more = textwrap.wrap(text, COLUMNS - width - 2)
        if len(name) > width:
            lines.append(name)
            name = ""
        lines += [f"{name:<{width}}  {first}", *(f"{'':<{width}}  {rest}" for rest in more)]
    return lines
