"""/context: what the next request would carry, by kind or item by item; pins, drops and brings back an item."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.agent.outlook import ContextItem
from agentcli.agent.pinning import Dropped, Restored
from agentcli.commands.base import fail, say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line

_USAGE = "/context takes items, or pin, unpin, drop, price or restore and the id of an item."


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    verb, _blank, item = arguments.strip().partition(" ")
    item = item.strip()
    match verb.lower():
        case "":
            yield say(_by_kind(engine))
        case "items" if not item:
            yield say(_item_by_item(engine))
        case "pin" | "unpin" if item:
            problem = engine.pin(item) if verb.lower() == "pin" else engine.unpin(item)
            done = "It stays in the context whatever happens." if verb.lower() == "pin" else "It is pinned no more."
            yield say(done) if problem is None else fail(problem)
        case "drop" if item:
            yield _done("Dropped", engine.drop(item), " /context restore brings it back.")
        case "price" if item:
            yield _done("Dropping it", engine.price_of_drop(item))
        case "restore" if item:
            yield _done("Restored", engine.restore(item))
        case _:
            yield fail(_USAGE)


def _done(what: str, outcome: Dropped | Restored | str, more: str = "") -> Event:
    if isinstance(outcome, str):
        return fail(outcome)
    also = f", {outcome.also}" if isinstance(outcome, Dropped) and outcome.also else ""
    return say(f"{what}{also}: {outcome.text}.{more}")


def _by_kind(engine: Engine) -> str:
    outlook = engine.outlook()
    counts: Counter[str] = Counter()
    for item in engine.context_items():
        counts[item.category] += item.tokens
    share = outlook.tokens / outlook.window if outlook.window else 0
    lines = [f"{outlook.tokens:,} of {outlook.window:,} tokens ({share:.0%}) with {engine.model}."]
    lines += [f"  {category:<12} {tokens:>9,}" for category, tokens in counts.most_common()]
    if outlook.compact_at:
        lines.append(f"It is compacted by itself at {outlook.compact_at:,} tokens.")
    return "\n".join(lines)


def _item_by_item(engine: Engine) -> str:
    lines = [_line(item, "pinned" if item.pinned else "") for item in engine.context_items()]
    lines += [_line(item, "dropped") for item in engine.dropped_items()]
    return "\n".join(lines)


def _line(item: ContextItem, state: str) -> str:
    return f"{item.id:<40} {item.category:<11} {item.tokens:>8,}  {state:<8} {plain_line(item.label, 80)}".rstrip()
