"""/exit: end the program."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual(
    "Ctrl+C twice does the same. A prompt that was not sent is there at the next start.", (("/exit", "leave"),)
)


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    front_end.leave()
