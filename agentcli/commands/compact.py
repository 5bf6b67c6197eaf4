"""/compact: summarise the conversation to make room, with an eye on what is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.agent.engine import Engine
from agentcli.core.events import Event


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    async with aclosing(engine.compact(arguments)) as events:
        async for event in events:
            yield event
