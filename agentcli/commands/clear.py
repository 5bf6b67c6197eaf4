"""/clear: start a new session with an empty context."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.events import Event

MANUAL = Manual("The old session is kept: /resume goes back to it.", (("/clear", "start a new session"),))


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    await front_end.open_session()
    yield say("New session. /resume returns to the previous session.")
