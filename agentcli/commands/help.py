"""/help: what commands there are, or more about one of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.manual import READ_ON, page_lines
from agentcli.commands.registry import COMMANDS, find, near
from agentcli.core.events import Event


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
    width = max(len(name) for name, _text in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]
