"""/logout: delete the stored key."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.events import Event

MANUAL = Manual(
    "Removes only a key stored by login. A key from the environment or apiKeyHelper stays in use.",
    (("/logout", "remove the key for the current address"),),
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    yield say(await front_end.disconnect())
