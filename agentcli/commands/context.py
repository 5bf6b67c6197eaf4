"""/context and /compact: what the next request contains, by kind or by item; pin, drop, restore and summarise it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.table import WIDTH, table
from agentcli.context.report import ContextItem
from agentcli.context.user_edits import ContextEffect
from agentcli.core.errors import UsageError
from agentcli.core.events import CompactionFailed, ContextCompacted, Event, Result
from agentcli.core.text.format import counted, percent, token_count
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.mcp.updates import ServerCost


_USAGE = (
    "/context items lists the items with their ids. Use one with pin, unpin, drop, price or restore: /context pin ID"
)
_ALWAYS = ("system", "tools")
"""Categories that are part of every request. They cannot be changed, so they need no id."""
_HANDLE = 6


async def run_context(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Pinned items are never compacted. Dropped items are no longer sent and can be restored. In the app, p, d and u
    pin, drop and restore the selected item.

    /context             show what fills the context window, by kind
    /context items       list items with their ids
    /context pin ID      pin an item
    /context unpin ID    unpin an item
    /context price ID    show what dropping an item saves and costs
    /context drop ID     drop an item
    /context restore ID  restore an item
    """
    if not arguments and front_end.has_pages:
        await front_end.page("context", engine)
        return None
    verb, _blank, item = arguments.strip().partition(" ")
    item = _meant(engine, item.strip())
    match verb.lower():
        case "":
            return _by_kind(engine)
        case "items" if not item:
            return _item_by_item(engine)
        case "pin" | "unpin" if item:
            problem = engine.context.pin(item) if verb.lower() == "pin" else engine.context.unpin(item)
            if problem is not None:
                raise UsageError(problem)
            return "Pinned: it always stays in the context." if verb.lower() == "pin" else "It is no longer pinned."
        case "drop" if item:
            return _done("Dropped", engine.context.drop(item), " /context restore undoes it.")
        case "price" if item:
            return _done("Dropping it", engine.context.price_of_drop(item))
        case "restore" if item:
            return _done("Restored", engine.context.restore(item))
    raise UsageError(_USAGE)


def _done(what: str, outcome: ContextEffect | str, more: str = "") -> str:
    if isinstance(outcome, str):
        raise UsageError(outcome)
    also = f", {outcome.also}" if outcome.also else ""
    return f"{what}{also}: {outcome.text}.{more}"


def _by_kind(engine: Engine) -> str:
    outlook = engine.context.outlook()
    counts: Counter[str] = Counter()
    for item in engine.context.items():
        counts[item.category] += item.tokens
    share = percent(outlook.tokens, outlook.window, decimals=1)
    lines = [f"The next request has about {token_count(outlook.tokens)} tokens: {share} of the"]
    lines[0] += f" {token_count(outlook.window)} window of {engine.model}."
    lines += [
        f"  {category:<12} {tokens:>9,}  {percent(tokens, outlook.window, decimals=1):>5}"
        for category, tokens in counts.most_common()
    ]
    if outlook.cached_tokens:
        lines.append(f"About {token_count(outlook.cached_tokens)} of them are read from the prompt cache.")
    elif outlook.cold:
        lines.append("The prompt cache is cold: all of it is billed again.")
    lines += server_lines(engine.server_costs())
    if outlook.compact_at:
        lines.append(f"It is compacted automatically at {token_count(outlook.compact_at)} tokens.")
    return "\n".join(lines)


def server_lines(costs: Iterable[ServerCost]) -> list[str]:
    """One line for each MCP server: its tokens, and how many of its tools are direct, loaded and deferred."""
    lines = []
    for cost in costs:
        waiting = max(0, cost.deferred - cost.loaded)
        counts = ((cost.direct, "in every request"), (cost.loaded, "loaded"), (waiting, "deferred"))
        tools = ", ".join(f"{counted(count, 'tool')} {what}" for count, what in counts if count)
        lines.append(f"MCP server {plain_line(cost.server, 40)}: {cost.tokens:,} tokens, {tools or 'no tools'}.")
    return lines


# -------------------------------------------------------------------------------------------------------- item by item


def _item_by_item(engine: Engine) -> str:
    items, dropped, window = engine.context.items(), engine.context.dropped_items(), engine.context.outlook().window
    names = handles(item.id for item in (*items, *dropped))
    rows: list[tuple[str, ...]] = [("id", "kind", "tokens", "share", "age", "cached", "what")]
    rows += [_row(item, names, window, "pinned: " if item.pinned else "") for item in items]
    rows += [_row(item, names, window, "dropped: ") for item in dropped]
    shown = table(rows, left=(0, 1, 5), text_width=WIDTH)
    return f"{shown}\nAge: how many prompts ago. /context pin, drop, price or restore take an id."


def _row(item: ContextItem, names: Mapping[str, str], window: int, state: str) -> tuple[str, ...]:
    always = item.category in _ALWAYS
    age = "-" if always else "now" if item.age <= 0 else f"{item.age:,}"
    cached = {True: "yes", False: "no", None: "?"}[item.cached]
    return (
        "-" if always else names[item.id],
        item.category,
        f"{item.tokens:,}",
        percent(item.tokens, window, decimals=1),
        age,
        cached,
        state + plain_line(item.label, 80),
    )


def handles(ids: Iterable[str]) -> dict[str, str]:
    """Short names for items, stable when other items come or go. An ambiguous one is replaced by the whole id."""
    short = {id: hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:_HANDLE] for id in ids}
    times = Counter(short.values())
    return {id: handle if times[handle] == 1 else id for id, handle in short.items()}


def _meant(engine: Engine, name: str) -> str:
    """Resolve an id or a short name to the item's id; an unknown name is returned unchanged."""
    if not name:
        return ""
    ids = [item.id for item in (*engine.context.items(), *engine.context.dropped_items())]
    if name in ids:
        return name
    return next((id for id, handle in handles(ids).items() if handle == name.lower()), name)


def run_compact(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    """Shows the summary first, and you can edit it. Compaction also runs automatically before the context window is
    full, without asking. Your prompts, the last exchange, files in use and pinned items stay.

    /compact                            summarise now
    /compact the parser, not the tests  summarise now, with a focus
    /compact undo                       undo the last compaction
    """
    if arguments.strip().lower() == "undo":
        return engine.perform(engine.context.undo_compaction())
    return _compact(engine, arguments)


async def _compact(engine: Engine, focus: str) -> AsyncGenerator[Event, None]:
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
