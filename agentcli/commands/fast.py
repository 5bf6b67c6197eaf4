"""/fast: show or change fast mode, which answers faster at a higher price."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.commands.confirmed_change import NOW_HELP, change_if_confirmed, without_now
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.format import money
from agentcli.core.usage import Price

MANUAL = Manual(
    f"Fast mode is the same model at a higher speed and price; not every model has it. {NOW_HELP}",
    (("/fast", "turn it on or off"), ("/fast on", "turn it on"), ("/fast status", "show it and its price")),
)


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    arguments, at_once = without_now(arguments)
    word = arguments.lower()
    if word not in ("", "on", "off", "status"):
        raise UsageError("Use /fast, /fast on, /fast off or /fast status.")
    if word == "status":
        yield say(_status(engine))
        return
    on = word == "on" or (not word and not engine.is_fast)
    if on and (problem := engine.fast_mode_problem):
        raise UsageError(problem)
    change = change_if_confirmed(
        engine,
        replace(engine.profile, fast=on),
        f"Turn fast mode {'on' if on else 'off'}?",
        lambda: engine.set_fast(on),
        lambda: _status(engine),
        f"Fast mode is still {'on' if engine.is_fast else 'off'}.",
        at_once=at_once,
    )
    async with aclosing(change) as events:
        async for event in events:
            yield event


def _status(engine: Engine) -> str:
    info = engine.catalog.get(engine.model)
    if not engine.is_fast or info.fast_price is None:
        return f"Fast mode is off. {engine.fast_mode_problem}".rstrip()
    instead = f", instead of {_rates(info.price)}" if info.price is not None else ""
    return f"Fast mode is on. A million tokens cost {_rates(info.fast_price)}{instead}."


def _rates(price: Price) -> str:
    return f"{money(price.input)} in and {money(price.output)} out"
