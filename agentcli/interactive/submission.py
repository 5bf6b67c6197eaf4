"""Run a sent draft as a prompt, a slash command or a shell line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from agentcli.core import events as ev

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.line import Line
    from agentcli.interactive.drafts.draft import Draft


def is_prompt(draft: Draft, engine: Engine | None) -> bool:
    """Whether a draft is for the model: neither a slash command nor a shell line."""
    if not draft.text.lstrip().startswith(("/", "!", "# ")):
        # Importing the commands imports the engine, and the first prompt must not wait for that.
        return True
    from agentcli.commands.line import PromptLine

    return isinstance(parse_draft(draft, engine), PromptLine)


def parse_draft(draft: Draft, engine: Engine | None) -> Line:
    """What the typed line of a draft means."""
    from agentcli.commands.line import parse_line

    return parse_line(draft.text, engine)


def needs_model(draft: Draft, engine: Engine | None) -> bool:
    """Whether a draft is a prompt, or a command that sends one."""
    return sends_prompt(parse_draft(draft, engine))


def sends_prompt(line: Line) -> bool:
    """Whether a line is a prompt, or a command that sends one."""
    from agentcli.commands.line import CommandLine, PromptLine

    if isinstance(line, CommandLine):
        return line.command is not None and line.command.kind == "prompt"
    return isinstance(line, PromptLine)


async def submit(engine: Engine, draft: Draft | None) -> AsyncGenerator[ev.Event, None]:
    """The submission of a draft; None: one that reports ended background tasks to the model. Images are read in a
    thread."""
    if draft is None:
        return engine.wake()
    from agentcli.commands.line import CommandLine, PromptLine, ShellLine, parse_line, run_command

    if draft.text.lstrip().startswith("/"):
        await engine.live_files.refresh()
    line = parse_draft(draft, engine)
    if not sends_prompt(line):
        engine.record_shown(ev.CommandEntered(text=draft.text))
    if draft.pieces and not isinstance(line, PromptLine):
        line = parse_line(draft.expanded(), engine)
    match line:
        case ShellLine():
            return engine.shell(line.command)
        case CommandLine():
            return run_command(engine, line.name, line.arguments, draft.text)
        case PromptLine():
            content = await asyncio.to_thread(draft.content) if draft.images else draft.expanded()
            return engine.submit(content, draft.text, mentions=draft.text)
