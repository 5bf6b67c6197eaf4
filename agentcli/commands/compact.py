"""/compact: summarise the conversation to free context, with an optional focus; `/compact undo` reverts it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.events import CompactionFailed, ContextCompacted, Event, Result
from agentcli.core.text.format import token_count

MANUAL = Manual(
    "Shows the summary first, and you can edit it. Compaction also runs automatically before the context window is "
    "full, without asking. Your prompts, the last exchange, files in use and pinned items stay.",
    (
        ("/compact", "summarise now"),
        ("/compact the parser, not the tests", "summarise now, with a focus"),
        ("/compact undo", "undo the last compaction"),
    ),
)


def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    if arguments.strip().lower() == "undo":
        return engine.perform(engine.context.undo_compaction())
    return _compacted(engine, arguments)


async def _compacted(engine: Engine, focus: str) -> AsyncGenerator[Event, None]:
    text = ""
    async with aclosing(engine.compact(focus, review=engine.previews_compaction)) as events:
        async for event in events:
            match event:
                case ContextCompacted():
                    before, after = token_count(event.tokens_before), token_count(event.tokens_after)
                    text = f"Summarised: about {before} tokens became {after}. /compact undo reverts it."
                case CompactionFailed(text=why, cancelled=True):
                    text = why
                case Result(is_error=False):
                    event = replace(event, text=text)
            yield event
