"""/logout: delete the stored key."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.events import Event

MANUAL = Manual(
    "Only what login kept: a key in the environment or from apiKeyHelper stays in use, and is named.",
    (("/logout", "forget the key for the address in use"),),
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    yield say(await front_end.disconnect())
