"""/logout: delete the stored key."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual(
    "Removes only a key stored by login. A key from the environment or apiKeyHelper stays in use.",
    (("/logout", "remove the key for the current address"),),
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    return await front_end.disconnect()
