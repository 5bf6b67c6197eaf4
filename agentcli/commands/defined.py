"""Slash commands for the commands and skills that users define in files, and for those of Python plugins."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.agent.plugins import Owned, SessionPlugins
from agentcli.agent.prompt_expansion import DefinedPrompt
from agentcli.commands.base import Command, fail, say
from agentcli.core.aio import in_thread
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.definitions.files import CommandFile, SkillFile
from agentcli.definitions.library import Library

MAX_SUMMARY = 120
_HOW_TO_TRUST = "Use --trust once, or /trust or `agentcli trust` to review it."


def rows_from_files(library: Library) -> Iterator[Command]:
    """Rows for commands, then for skills. If both have the same name, the command is used."""
    for command in library.commands.values():
        yield _row(command, "command")
    for skill in library.skills.values():
        if skill.for_user:
            yield _row(skill, "skill")


def list_untrusted(library: Library) -> Iterator[Command]:
    """Rows for commands of a project that is not trusted. They only say how to trust it."""
    for name, file in library.untrusted.items():
        shown = plain_line(name, 80)
        yield Command(
            shown,
            f"Command of this project, in {plain_line(file, 200)}",
            source="project",
            function=partial(_refuse, shown, plain_line(file, 200)),
            unavailable="this folder is not trusted; /trust reviews it",
            help=f"It is not used before you have trusted this folder. {_HOW_TO_TRUST}",
        )


async def _refuse(name: str, file: str, _engine: Engine, _arguments: str) -> str:
    text = f"/{name} is not available: this folder is not trusted, so {file} is not used."
    raise UsageError(f"{text} {_HOW_TO_TRUST}")


def _row(definition: CommandFile | SkillFile, kind: str) -> Command:
    summary = plain_line(definition.description, MAX_SUMMARY).rstrip(".") or f"Custom {kind}"
    return Command(
        definition.name,
        summary,
        definition.argument_hint,
        kind="prompt",
        source=definition.origin.scope,
        function=partial(_send, definition),
        help=f"This {kind} comes from {definition.origin.label}.",
    )


def _send(
    definition: CommandFile | SkillFile, engine: Engine, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Submit the expanded file. `added`: text appended without expansion, e.g. piped input."""
    shown = typed or f"/{definition.name} {arguments}".rstrip()
    return engine.submit_defined(DefinedPrompt(definition, arguments, shown, added))


def rows_from_plugins(plugins: SessionPlugins) -> Iterator[Command]:
    for name, owned in sorted(plugins.active.commands.items()):
        part = owned.part
        shows = inspect.isasyncgenfunction(part.function) or inspect.isgeneratorfunction(part.function)
        yield Command(
            name,
            plain_line(part.summary, MAX_SUMMARY) or "Command of a plugin",
            plain_line(part.argument_hint, 40),
            kind="report" if shows else "prompt",
            source="plugin",
            function=partial(_run_plugin_command, owned) if shows else partial(_send_plugin_prompt, owned),
            help=f"This command comes from {plain_line(owned.source.label)}.",
        )


async def _run_plugin_command(owned: Owned, engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
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
        yield _fail(owned, engine, error)


async def _send_plugin_prompt(
    owned: Owned, engine: Engine, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Run a command that returns a prompt, and submit that."""
    function = owned.part.function
    try:
        is_async = inspect.iscoroutinefunction(function)
        text = await (function(engine, arguments) if is_async else in_thread(function, engine, arguments))
        if text is not None and not isinstance(text, str):
            raise TypeError(f"it returned {type(text).__name__}; expected a prompt or None")
        work = engine.perform(_only()) if text is None else _submit_text(owned, engine, text, arguments, typed, added)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is the command's failure
        work = engine.perform(_only(_fail(owned, engine, error)))
    async with aclosing(work) as events:
        async for event in events:
            yield event


def _submit_text(
    owned: Owned, engine: Engine, text: str, arguments: str, typed: str, added: str
) -> AsyncGenerator[Event, None]:
    shown = typed or f"/{owned.part.name} {arguments}".rstrip()
    return engine.submit(f"{text}\n\n{added}" if added else text, shown, mentions=text)


def _fail(owned: Owned, engine: Engine, error: Exception) -> Event:
    if engine.session.plugins is not None:
        engine.session.plugins.fail(owned.source, f"the command /{owned.part.name}", error)
    return fail(plain_line(f"/{owned.part.name} failed: {type(error).__name__}: {error}", 400))


async def _only(*events: Event) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event


_END = object()
