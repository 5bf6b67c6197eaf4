"""/login and /logout: connect a model, with a key or a server on this machine; delete the stored key."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

LOGIN_MANUAL = Manual(
    "The key is hidden while you paste it, checked, and stored in the system keyring or in a file that only you can "
    "read. It is sent to its own address only. Servers are searched on this machine only. The session continues.",
    (("/login", "enter a key or choose a server on this machine"),),
)


async def run_login(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    await front_end.connect()


LOGOUT_MANUAL = Manual(
    "Removes only a key stored by login. A key from the environment or apiKeyHelper stays in use.",
    (("/logout", "remove the key for the current address"),),
)


async def run_logout(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    return await front_end.disconnect()
