"""/cost: what this conversation has used so far, in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.core.events import Event


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    totals = engine.totals
    if not totals.by_model:
        yield say("Nothing has been used yet.")
        return
    partly = "" if totals.fully_priced else ", without requests whose price is not known"
    lines = [f"${totals.cost_usd:.4f} so far{partly}."]
    for model, used in totals.by_model.items():
        usage = used.usage
        price = f"${used.cost_usd:.4f}" if not used.unpriced_requests else "price not known"
        lines.append(
            f"  {model}: {price}, {used.requests:,} requests, {usage.input_tokens:,} in, {usage.output_tokens:,} out, "
            f"{usage.cache_read_input_tokens:,} read from cache, {usage.cache_creation_input_tokens:,} written to it"
        )
    yield say("\n".join(lines))
