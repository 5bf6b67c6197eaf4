"""/model: show or choose the model. Its effort and thinking are fitted to what it can do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from difflib import get_close_matches

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, rebilled, say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line
from agentcli.providers.catalog import ALIASES, nearest_effort


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    known = engine.catalog.known_ids()
    if not arguments:
        aliases = ", ".join(f"{alias} ({id})" for alias, id in ALIASES.items())
        yield say(f"The model is {engine.model}.\nKnown: {', '.join(known)}.\nShort names: {aliases}.")
        return
    if len(arguments.split()) != 1:
        yield fail("Give one name: /model NAME.")
        return
    info = engine.catalog.get(arguments)
    near = get_close_matches(info.id, [*known, *ALIASES], n=2, cutoff=0.75) if not info.known else []
    if near:
        yield fail(f"There is no model {plain_line(arguments)}. Did you mean {' or '.join(near)}?")
        return
    before = engine.model
    engine.set_model(info.id)
    parts = [f"The model is now {info.id}."]
    if not info.known:
        parts.append("It is not in the list: its window and price are not known.")
    if engine.profile.effort is not None:
        level, message = nearest_effort(info, engine.profile.effort)
        engine.set_effort(level)
        parts += [message] if message else []
    again = rebilled(engine) if engine.model != before else ""
    yield say(plain_line(" ".join(parts) + again, 500))
