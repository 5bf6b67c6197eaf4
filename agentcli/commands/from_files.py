"""Slash commands for the commands and skills that users define in files."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial

from agentcli.agent.engine import Engine
from agentcli.agent.prompt_expansion import DefinedPrompt
from agentcli.commands.base import Command, Manual
from agentcli.core.errors import UsageError
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.files import CommandFile, SkillFile
from agentcli.definitions.library import Library

_LONGEST_SUMMARY = 120
_HOW_TO_TRUST = "Use --trust once, or /trust or `agentcli trust` to review it."


def rows_from_files(library: Library) -> Iterator[Command]:
    """Rows for commands, then for skills. If both have the same name, the command is used."""
    for command in library.commands.values():
        yield _row(command, "command")
    for skill in library.skills.values():
        if skill.for_user:
            yield _row(skill, "skill")


def untrusted_rows(library: Library) -> Iterator[Command]:
    """Rows for commands of a project that is not trusted. They only say how to trust it."""
    for name, file in library.untrusted.items():
        shown = plain_line(name, 80)
        yield Command(
            shown,
            f"Command of this project, in {plain_line(file, 200)}",
            source="project",
            function=partial(_refuse, shown, plain_line(file, 200)),
            unavailable="this folder is not trusted; /trust reviews it",
            help=Manual(f"It is not used before you have trusted this folder. {_HOW_TO_TRUST}", ()),
        )


async def _refuse(name: str, file: str, _engine: Engine, _arguments: str) -> str:
    text = f"/{name} is not available: this folder is not trusted, so {file} is not used."
    raise UsageError(f"{text} {_HOW_TO_TRUST}")


def _row(definition: CommandFile | SkillFile, kind: str) -> Command:
    summary = plain_line(definition.description, _LONGEST_SUMMARY).rstrip(".") or f"Custom {kind}"
    return Command(
        definition.name,
        summary,
        definition.argument_hint,
        submits=True,
        source=definition.origin.scope,
        sends_prompt=True,
        function=partial(_send, definition),
        help=Manual(f"This {kind} comes from {definition.origin.label}.", ()),
    )


def _send(
    definition: CommandFile | SkillFile, engine: Engine, arguments: str, typed: str = "", added: str = ""
) -> AsyncGenerator[Event, None]:
    """Submit the expanded file. `added`: text appended without expansion, e.g. piped input."""
    shown = typed or f"/{definition.name} {arguments}".rstrip()
    return engine.submit_defined(DefinedPrompt(definition, arguments, shown, added))
