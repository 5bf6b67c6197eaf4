"""/compact: summarise the conversation to make room, with an eye on what is given; `/compact undo` takes it back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.events import CompactionFailed, ContextCompacted, Event, Result

MANUAL = Manual(
    "Runs automatically before the window is full. You see the summary first and can change it. "
    "Your own words, the last exchange, files in use and what is pinned stay.",
    (
        ("/compact", "summarise now"),
        ("/compact the parser, not the tests", "say what matters"),
        ("/compact undo", "take it back"),
    ),
)


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    work = (
        engine.perform(engine.context.undo_compaction())
        if arguments.strip().lower() == "undo"
        else _compacted(engine, arguments)
    )
    async with aclosing(work) as events:
        async for event in events:
            yield event


async def _compacted(engine: Engine, focus: str) -> AsyncGenerator[Event, None]:
    text = ""
    async with aclosing(engine.compact(focus, review=engine.previews_compaction)) as events:
        async for event in events:
            match event:
                case ContextCompacted():
                    text = (
                        f"Summarised: about {event.tokens_before:,} tokens became {event.tokens_after:,}. "
                        "/compact undo takes it back."
                    )
                case CompactionFailed(text=why, cancelled=True):
                    text = why
                case Result(is_error=False):
                    event = replace(event, text=text)
            yield event
