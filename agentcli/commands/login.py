"""/login: connect a model, with a key or a server on this machine."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError

MANUAL = Manual(
    "A key is not shown, is checked, and is kept in the system's keyring or in a file that only you can read, for "
    "its own address alone. Servers are looked for on this machine only. The conversation goes on with either.",
    (("/login", "paste a key, or choose a server on this machine"),),
)


async def run(_engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    if arguments:
        raise UsageError("/login takes no arguments. It asks for the key without showing it.")
    await front_end.connect()
