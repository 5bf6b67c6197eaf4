"""/login: connect a model, with a key or a server on this machine."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual(
    "The key is hidden while you paste it, checked, and stored in the system keyring or in a file that only you can "
    "read. It is sent to its own address only. Servers are searched on this machine only. The session continues.",
    (("/login", "enter a key or choose a server on this machine"),),
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    await front_end.connect()
