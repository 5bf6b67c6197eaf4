"""/clear: start a new session with an empty context."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual("The previous session is kept. /resume returns to it.", (("/clear", "start a new session"),))


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    await front_end.open_session()
    return "New session. /resume returns to the previous session."
