"""/rename: the name under which a session is listed and found."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, fail, say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line

MANUAL = Manual("agentcli -r NAME resumes a session by its name.", (("/rename the parser", "name this session"),))


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    title = plain_line(arguments)
    if not title:
        yield fail("Give the name: /rename NAME")
        return
    engine.rename(title)
    yield say(f"This session is now called {title}.")
