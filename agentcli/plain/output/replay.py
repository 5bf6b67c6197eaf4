"""Print the end of a resumed conversation, so that the user sees where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.plural import counted
from agentcli.interactive.wording import is_entered
from agentcli.plain.output.pieces import Gap, Piece, line
from agentcli.plain.output.printer import Printer, Titles, prompt_lines

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

PROMPTS_SHOWN = 2


async def past_of(engine: Engine, *, verbose: bool = False) -> list[Piece]:
    """Replay the end of an engine's conversation. In a thread: reading a long one takes seconds."""
    return await asyncio.to_thread(lambda: replayed(engine.take_history(), engine.title_of, verbose=verbose))


def replayed(history: Sequence[ev.Event], title_of: Titles, *, verbose: bool = False) -> list[Piece]:
    """Print everything from the last but one prompt on; the messages before it are only counted."""
    printer = Printer(title_of, verbose=verbose)
    start = _start(history)
    before = sum(isinstance(event, ev.MessageAppended | ev.ReplyStarted) for event in islice(history, start))
    if not before:
        start = 0
    for event in islice(history, start):
        match event:
            # Later lines depend on these: the cost so far, the permission mode, shell commands still running.
            case ev.Result() | ev.SessionResumed() | ev.ModeChanged() | ev.ToolStarted(agent=ev.USER_AGENT):
                _printed(event, printer)
    pieces: list[Piece] = [line(f"… {counted(before, 'message')} before", "quiet")] if before else []
    for event in islice(history, start, None):
        pieces += _printed(event, printer)
    return [*pieces, Gap()] if pieces else []


def _start(history: Sequence[ev.Event]) -> int:
    prompts = (place for place in range(len(history) - 1, -1, -1) if _is_prompt(history[place]))
    return next(islice(prompts, PROMPTS_SHOWN - 1, None), 0)


def _is_prompt(event: ev.Event) -> bool:
    return isinstance(event, ev.MessageAppended) and event.message.origin is Origin.PROMPT


def _printed(event: ev.Event, printer: Printer) -> list[Piece]:
    if isinstance(event, ev.MessageAppended) and _is_prompt(event) and not is_entered(event.message):
        return printer.message(event.message)
    if isinstance(event, ev.CommandEntered):
        return [Gap(), *prompt_lines(plain_text(event.text))]
    pieces = printer.show(event, 0.0)
    if isinstance(event, ev.Result):
        printer.settled()
    return pieces
