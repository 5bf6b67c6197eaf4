"""/rename: name the session, for lists and `--resume`."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual("agentcli -r NAME resumes a session by its name.", (("/rename the parser", "name this session"),))


async def run(engine: Engine, arguments: str) -> str:
    title = plain_line(arguments)
    if not title:
        raise UsageError("Give the name: /rename NAME")
    engine.rename(title)
    return f"This session is now called {title}."
