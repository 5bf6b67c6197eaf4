"""/compact: summarise the conversation to make room, with an eye on what is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.core.events import ContextCompacted, Event, Result


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    text = ""
    async with aclosing(engine.compact(arguments)) as events:
        async for event in events:
            if isinstance(event, ContextCompacted):
                text = f"Summarised: about {event.tokens_before:,} tokens became {event.tokens_after:,}."
            if isinstance(event, Result) and not event.is_error:
                event = replace(event, text=text)
            yield event
