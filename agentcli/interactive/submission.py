"""What a draft becomes when it is sent: a prompt, a slash command or a shell line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentcli.core import events as ev

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.draft import Draft


def is_prompt(draft: Draft) -> bool:
    """Whether a draft is for the model: neither a slash command nor a shell line."""
    if not draft.text.lstrip().startswith(("/", "!")):
        # Importing the commands imports the engine, which a first prompt does not wait for.
        return True
    from agentcli.commands.line import PromptLine, parse_line

    return isinstance(parse_line(draft.text), PromptLine)


async def submission_events(engine: Engine, draft: Draft) -> AsyncGenerator[ev.Event, None]:
    """The events of what was sent. Reading the images of a draft takes a thread."""
    from agentcli.commands.line import CommandLine, PromptLine, ShellLine, parse_line
    from agentcli.commands.run import run_command

    line = parse_line(draft.text)
    if not isinstance(line, PromptLine):
        engine.record_shown(ev.CommandEntered(text=draft.text))
        line = parse_line(draft.expanded())
    match line:
        case ShellLine():
            work = engine.shell(line.command)
        case CommandLine():
            work = run_command(engine, line.name, line.arguments)
        case PromptLine():
            content = await asyncio.to_thread(draft.content) if draft.images else draft.expanded()
            work = engine.submit(content, draft.text, mentions=draft.text)
    async with aclosing(work) as events:
        async for event in events:
            yield event
