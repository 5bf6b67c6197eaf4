"""Slash commands for the commands of Python plugins."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.agent.plugins import Owned, SessionPlugins
from agentcli.commands.base import Command, Manual, fail, say
from agentcli.core.aio import in_thread
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line, plain_text

_LONGEST_SUMMARY = 120


def rows_from_plugins(plugins: SessionPlugins) -> Iterator[Command]:
    for name, owned in sorted(plugins.active.commands.items()):
        part = owned.part
        shows = inspect.isasyncgenfunction(part.function) or inspect.isgeneratorfunction(part.function)
        yield Command(
            name,
            plain_line(part.summary, _LONGEST_SUMMARY) or "Command of a plugin",
            plain_line(part.argument_hint, 40),
            submits=not shows,
            source="plugin",
            sends_prompt=not shows,
            function=partial(_show, owned) if shows else partial(_send, owned),
            help=Manual(f"This command comes from {plain_line(owned.source.label)}.", ()),
        )


async def _show(owned: Owned, engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    """Run a command that yields texts and events."""
    work: Any = owned.part.function(engine, arguments)
    try:
        if hasattr(work, "__aiter__"):
            async with aclosing(work) if hasattr(work, "aclose") else nullcontext():
                async for item in work:
                    yield item if isinstance(item, Event) else say(plain_text(str(item)))
        else:
            while (item := await in_thread(next, work, _END)) is not _END:
                yield item if isinstance(item, Event) else say(plain_text(str(item)))
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is the command's failure
        yield _failed(owned, engine, error)


async def _send(
    owned: Owned, engine: Engine, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Run a command that returns a prompt, and submit that."""
    function = owned.part.function
    try:
        is_async = inspect.iscoroutinefunction(function)
        text = await (function(engine, arguments) if is_async else in_thread(function, engine, arguments))
        if text is not None and not isinstance(text, str):
            raise TypeError(f"it returned {type(text).__name__}; expected a prompt or None")
        work = engine.perform(_only()) if text is None else _prompt(owned, engine, text, arguments, typed, added)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is the command's failure
        work = engine.perform(_only(_failed(owned, engine, error)))
    async with aclosing(work) as events:
        async for event in events:
            yield event


def _prompt(
    owned: Owned, engine: Engine, text: str, arguments: str, typed: str, added: str
) -> AsyncGenerator[Event, None]:
    shown = typed or f"/{owned.part.name} {arguments}".rstrip()
    return engine.submit(f"{text}\n\n{added}" if added else text, shown, mentions=text)


def _failed(owned: Owned, engine: Engine, error: Exception) -> Event:
    if engine.plugins is not None:
        engine.plugins.fail(owned.source, f"the command /{owned.part.name}", error)
    return fail(plain_line(f"/{owned.part.name} failed: {type(error).__name__}: {error}", 400))


async def _only(*events: Event) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event


_END = object()
