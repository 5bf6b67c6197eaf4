"""/exit: end the program."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd

MANUAL = Manual("Ctrl+C twice does the same. An unsent prompt is restored at the next start.", (("/exit", "quit"),))


async def run(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    front_end.leave()
