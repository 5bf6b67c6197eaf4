"""/help: what commands there are, or what one of them does."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.registry import COMMANDS, find, near
from agentcli.core.events import Event


async def run(_engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    if not arguments:
        width = max(len(command.usage) for command in COMMANDS)
        yield say("\n".join(f"{command.usage:<{width}}  {command.summary}" for command in COMMANDS))
        return
    name = arguments.removeprefix("/")
    command = find(name)
    if command is None:
        meant = near(name)
        yield fail(f"There is no command /{name}." + (f" Did you mean /{meant[0]}?" if meant else ""))
        return
    also = f" Also: {', '.join(f'/{alias}' for alias in command.aliases)}." if command.aliases else ""
    yield say(f"{command.usage}: {command.summary}.{also}")
