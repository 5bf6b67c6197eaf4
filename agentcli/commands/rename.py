"""/rename: show or change the session's name, for lists and `--resume`."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "agentcli -r NAME resumes a session by its name.",
    (("/rename", "show the name"), ("/rename the parser", "name this session")),
)
_HOW = "/rename NAME changes it."


async def run(engine: Engine, arguments: str) -> str:
    title = plain_line(arguments)
    if not title:
        name = plain_line(engine.title)
        return f"This session is called {name}. {_HOW}" if name else f"This session has no name. {_HOW}"
    engine.rename(title)
    return f"This session is now called {title}."
