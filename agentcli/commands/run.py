"""From a line that was typed to a command's events, with one `Result` at their end like any submission."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail
from agentcli.commands.line import CommandLine, parse_line
from agentcli.commands.registry import find, near
from agentcli.core.events import Event


def parse(text: str) -> tuple[str, str] | None:
    """The name and the arguments of a command; None for a prompt or a shell line."""
    line = parse_line(text)
    return (line.name, line.arguments) if isinstance(line, CommandLine) else None


async def run_command(engine: Engine, name: str, arguments: str) -> AsyncGenerator[Event, None]:
    command = find(name)
    if command is None:
        work = engine.perform(_unknown(name))
    elif command.submits:
        work = command.load()(engine, arguments)
    else:
        work = engine.perform(command.load()(engine, arguments))
    async with aclosing(work) as events:
        async for event in events:
            yield event


async def _unknown(name: str) -> AsyncGenerator[Event, None]:
    meant = near(name)
    hint = f" Did you mean {' or '.join(f'/{one}' for one in meant)}?" if meant else " /help lists them."
    yield fail(f"There is no command /{name}.{hint}")
