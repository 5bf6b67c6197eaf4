"""/model: show or change the model. The chosen effort stays: each model gets the nearest level that it supports."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.confirmed_change import NOW_HELP, change_if_confirmed, without_now
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.catalog import ALIASES, nearest_effort

MANUAL = Manual(
    f"Takes an id or a short name such as opus, sonnet or haiku. {NOW_HELP}",
    (
        ("/model", "choose from a list"),
        ("/model sonnet", "change the model"),
        ("/model haiku now", "skip the confirmation"),
    ),
)


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    known = engine.catalog.known_ids()
    if not arguments and front_end.has_pages:
        if (name := await front_end.page("model", engine)) is not None:
            # The page has shown the price: no need to confirm it again.
            front_end.send(f"/model {name} now")
        return
    if not arguments:
        aliases = ", ".join(f"{alias} ({id})" for alias, id in ALIASES.items())
        yield say(f"The model is {engine.model}.\nKnown: {', '.join(known)}.\nShort names: {aliases}.")
        return
    arguments, at_once = without_now(arguments)
    if len(arguments.split()) != 1:
        raise UsageError("Give one name: /model NAME.")
    if problem := engine.catalog.refusal(arguments):
        raise UsageError(problem)
    info = engine.catalog.get(arguments)
    near = get_close_matches(info.id, [*known, *ALIASES], n=2, cutoff=0.75) if not info.known else []
    if near:
        raise UsageError(f"There is no model {plain_line(arguments)}. Did you mean {' or '.join(near)}?")
    parts = [f"The model is now {info.id}."]
    if not info.known:
        parts.append("It is not in the catalogue: its context window and price are unknown.")
    if engine.profile.effort is not None:
        _level, message = nearest_effort(info, engine.profile.effort)
        parts += [message] if message else []
    if engine.profile.fast and info.fast_price is None:
        parts.append("It has no fast mode: requests use the standard speed.")
    profile = replace(engine.profile, model=info.id)
    question = f"Change the model to {plain_line(info.id, 100)}?"
    work = change_if_confirmed(
        engine,
        profile,
        question,
        lambda: engine.set_model(info.id),
        lambda: " ".join(parts),
        f"The model is still {engine.model}.",
        at_once=at_once,
    )
    async with aclosing(work) as events:
        async for event in events:
            yield event
