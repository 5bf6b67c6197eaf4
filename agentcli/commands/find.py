"""/find: search in the transcript."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual(
    "Ctrl+F does the same; Enter goes to the next match, Esc closes.",
    (("/find", "begin"), ("/find TODO", "look for it")),
)


async def run(_engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    await front_end.page("find", arguments)
