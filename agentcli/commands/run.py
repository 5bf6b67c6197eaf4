"""Run a slash command as a submission, with one `Result` at its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail
from agentcli.commands.registry import find, near
from agentcli.core.events import Event


def run_command(
    engine: Engine, name: str, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Run the command of a name. For commands that send a prompt: `typed` is the text for the transcript, `added` is
    appended to the prompt as it is."""
    command = find(name, engine)
    if command is None:
        return engine.perform(_unknown(engine, name))
    if command.sends_prompt:
        return command.load()(engine, arguments, typed, added)
    work = command.load()(engine, arguments)
    return work if command.submits else engine.perform(work)


async def _unknown(engine: Engine, name: str) -> AsyncGenerator[Event, None]:
    if name.startswith("mcp__") and not all(server.start_ended for server in engine.mcp or ()):
        yield fail(f"There is no command /{name} yet: MCP servers are still connecting. /mcp shows them.")
        return
    meant = near(name, engine)
    hint = f" Did you mean {' or '.join(f'/{one}' for one in meant)}?" if meant else " /help lists all commands."
    yield fail(f"There is no command /{name}.{hint}")
