"""/model, /effort, /fast and /thinking: the model and its parameters.

Changing one invalidates the prompt cache. In an interactive session the user is asked if the price is at least the
setting `confirmCostAbove`. A `now` at the end of the line skips the question; the pickers add it, because they have
shown the price. Otherwise the change is made and its price reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from typing import cast, get_args

from agentcli.agent.engine import Engine
from agentcli.agent.profile import Profile
from agentcli.commands.base import say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Price
from agentcli.providers.base import Effort, ThinkingMode
from agentcli.providers.catalog import ALIASES, EFFORTS, ModelInfo, nearest_effort


def without_now(arguments: str) -> tuple[str, bool]:
    """Remove a `now` from the end of the arguments; also returns whether there was one."""
    rest, _blank, last = arguments.rstrip().rpartition(" ")
    return (rest.rstrip(), True) if rest and last.lower() == "now" else (arguments, False)


async def change_if_confirmed(
    engine: Engine,
    profile: Profile,
    question: str,
    change: Callable[[], None],
    report: Callable[[], str],
    unchanged: str,
    *,
    at_once: bool,
) -> AsyncGenerator[Event, None]:
    """Change to `profile` if the user agrees, then yield the text of `report`, which is called after the change.

    `unchanged`: the sentence after a no, such as "The effort is still high."
    """
    price = engine.context.price_of_change(profile)
    note = f" {price.note}" if price.note and engine.profile != profile else ""
    if not at_once and price.needs_confirmation(engine.session.settings.tuning.confirm_cost_above):
        text = f"This {price.text}: the cached context cannot be reused."
        display = {"kind": "confirm", "text": text, "yes": "Change it", "no": "Do not change it"}
        if (asking := engine.question(question, f"This {price.text}.", display)) is not None:
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
            if asking.answer is None or asking.answer.behavior != "allow":
                yield say(f"Cancelled. {unchanged}")
                return
            note = ""
    change()
    yield say(plain_line(report() + note, 500))


async def run_model(engine: Engine, arguments: str, front_end: FrontEnd) -> str | AsyncGenerator[Event, None] | None:
    """Takes an id or a short name such as opus, sonnet or haiku. If re-reading the context costs confirmCostAbove or
    more, you are asked first; now skips the question.

    /model            choose from a list
    /model sonnet     change the model
    /model haiku now  skip the confirmation
    """
    # The chosen effort stays: each model gets the nearest level that it supports.
    known = engine.session.catalog.list_ids()
    if not arguments and front_end.has_pages:
        if (name := await front_end.page("model", engine)) is not None:
            # The page has shown the price: no need to confirm it again.
            front_end.send(f"/model {name} now")
        return None
    if not arguments:
        aliases = ", ".join(f"{alias} ({id})" for alias, id in ALIASES.items())
        return f"The model is {engine.model}.\nKnown: {', '.join(known)}.\nShort names: {aliases}."
    arguments, at_once = without_now(arguments)
    if len(arguments.split()) != 1:
        raise UsageError("Give one name: /model NAME.")
    if problem := engine.session.catalog.refusal(arguments):
        raise UsageError(problem)
    info = engine.session.catalog.get(arguments)
    near = get_close_matches(info.id, [*known, *ALIASES], n=2, cutoff=0.75) if not info.known else []
    if near:
        raise UsageError(f"There is no model {plain_line(arguments)}. Did you mean {' or '.join(near)}?")
    parts = [f"The model is now {info.id}."]
    if not info.known:
        parts.append("It is not in the catalogue: its context window and price are unknown.")
    before, _message = _effort_with(engine.session.catalog.get(engine.model), engine.profile.effort)
    after, message = _effort_with(info, engine.profile.effort)
    if message or after != before:
        parts.append(message or f"The effort is now {after or 'not sent'}.")
    if engine.profile.fast and info.fast_price is None:
        parts.append("It has no fast mode: requests use the standard speed.")
    return change_if_confirmed(
        engine,
        replace(engine.profile, model=info.id),
        f"Change the model to {plain_line(info.id, 100)}?",
        lambda: engine.set_model(info.id),
        lambda: " ".join(parts),
        f"The model is still {engine.model}.",
        at_once=at_once,
    )


async def run_effort(engine: Engine, arguments: str, front_end: FrontEnd) -> str | AsyncGenerator[Event, None] | None:
    """Levels: low, medium, high, xhigh, max, or auto for the model's default. If re-reading the context costs
    confirmCostAbove or more, you are asked first; now skips the question.

    /effort       choose from a list
    /effort high  change the effort
    """
    info = engine.session.catalog.get(engine.model)
    arguments, at_once = without_now(arguments)
    wanted = arguments.lower()
    if not wanted and front_end.has_pages:
        if (picked := await front_end.page("effort", engine)) is not None:
            front_end.send(f"/effort {picked} now")
        return None
    offered = f"{info.id} does not support effort levels."
    if info.efforts:
        offered = f"{info.id} supports {', '.join(info.efforts)} or auto."
    if not wanted:
        return f"{_current_effort(engine)} {offered}"
    level: Effort | None = None
    message: str | None = None
    if wanted in EFFORTS:
        level, message = nearest_effort(info, wanted)
        if level is None and message is not None:
            return message
    elif wanted != "auto":
        raise UsageError(f"There is no effort level {arguments!r}. {offered}")
    return change_if_confirmed(
        engine,
        replace(engine.profile, effort=level),
        f"Change the effort to {level or 'auto'}?",
        lambda: engine.set_effort(level),
        lambda: message or _current_effort(engine),
        f"The effort is still {engine.effort or 'auto'}.",
        at_once=at_once,
    )


def _effort_with(info: ModelInfo, chosen: Effort | None) -> tuple[Effort | None, str | None]:
    """The effort that a model has, and a sentence if it is not the chosen one."""
    return (info.default_effort, None) if chosen is None else nearest_effort(info, chosen)


def _current_effort(engine: Engine) -> str:
    info = engine.session.catalog.get(engine.model)
    if engine.effort is not None:
        return f"The effort is {engine.effort}."
    default = f" ({info.default_effort} for {info.id})" if info.default_effort else ""
    return f"The effort is auto: the model's default{default}."


async def run_fast(engine: Engine, arguments: str) -> str | AsyncGenerator[Event, None]:
    """Fast mode is the same model at a higher speed and price; not every model has it. If re-reading the context costs
    confirmCostAbove or more, you are asked first; now skips the question.

    /fast         turn it on or off
    /fast on      turn it on
    /fast status  show it and its price
    """
    arguments, at_once = without_now(arguments)
    word = arguments.lower()
    if word not in ("", "on", "off", "status"):
        raise UsageError("Use /fast, /fast on, /fast off or /fast status.")
    if word == "status":
        return _fast_status(engine)
    on = word == "on" or (not word and not engine.is_fast)
    if on and (problem := engine.fast_mode_problem):
        raise UsageError(problem)
    return change_if_confirmed(
        engine,
        replace(engine.profile, fast=on),
        f"Turn fast mode {'on' if on else 'off'}?",
        lambda: engine.set_fast(on),
        lambda: _fast_status(engine),
        f"Fast mode is still {'on' if engine.is_fast else 'off'}.",
        at_once=at_once,
    )


def _fast_status(engine: Engine) -> str:
    info = engine.session.catalog.get(engine.model)
    if not engine.is_fast or info.fast_price is None:
        return f"Fast mode is off. {engine.fast_mode_problem}".rstrip()
    instead = f", instead of {_rates(info.price)}" if info.price is not None else ""
    return f"Fast mode is on. A million tokens cost {_rates(info.fast_price)}{instead}."


def _rates(price: Price) -> str:
    return f"{money(price.input)} in and {money(price.output)} out"


async def run_thinking(engine: Engine, arguments: str) -> str | AsyncGenerator[Event, None]:
    """The available modes depend on the model. If re-reading the context costs confirmCostAbove or more, you are asked
    first; now skips the question.

    /thinking           show the mode
    /thinking disabled  turn thinking off
    """
    info = engine.session.catalog.get(engine.model)
    arguments, at_once = without_now(arguments)
    wanted = arguments.lower()
    unknown = f"No thinking mode is sent to {info.id}: agentcli does not know which ones it has."
    offered = f"{info.id} supports {', '.join(info.thinking)}." if info.thinking else unknown
    if not wanted:
        mode = engine.profile.thinking.mode
        return f"Thinking is {mode}. {offered}" if info.thinking else f"{unknown} For others it is {mode}."
    if wanted not in get_args(ThinkingMode):
        raise UsageError(f"There is no thinking mode {arguments!r}. {offered}")
    if info.thinking and wanted not in info.thinking:
        always = " It always thinks." if info.always_thinks else ""
        raise UsageError(f"{info.id} does not support thinking {wanted}.{always} {offered}")
    thinking = replace(engine.profile.thinking, mode=cast(ThinkingMode, wanted))
    return change_if_confirmed(
        engine,
        replace(engine.profile, thinking=thinking),
        f"Change thinking to {wanted}?",
        lambda: engine.set_thinking(thinking),
        lambda: f"Thinking is {wanted}." if info.thinking else f"Thinking is {wanted} for other models. {unknown}",
        f"Thinking is still {engine.profile.thinking.mode}.",
        at_once=at_once,
    )
