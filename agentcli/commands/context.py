"""/context: what the next request would carry, by kind, and how much room is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.core.events import Event


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    outlook = engine.outlook()
    counts: Counter[str] = Counter()
    for item in engine.context_items():
        counts[item.category] += item.tokens
    share = outlook.tokens / outlook.window if outlook.window else 0
    lines = [f"{outlook.tokens:,} of {outlook.window:,} tokens ({share:.0%}) with {engine.model}."]
    lines += [f"  {category:<12} {tokens:>9,}" for category, tokens in counts.most_common()]
    if outlook.compact_at:
        lines.append(f"It is compacted by itself at {outlook.compact_at:,} tokens.")
    yield say("\n".join(lines))
