"""The end of a conversation that is resumed, so that the user knows where it stopped. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.plaintext import plain_text
from agentcli.core.plural import counted
from agentcli.plain.pieces import Gap, Piece, line
from agentcli.plain.printer import Printer, Titles, prompt_lines

PROMPTS_SHOWN = 2


def replayed(history: Iterable[ev.Event], title_of: Titles, *, verbose: bool = False) -> list[Piece]:
    """What was printed from the last but one prompt on; the messages before it are only counted."""
    printer = Printer(title_of, verbose=verbose)
    starts: list[tuple[int, int]] = []
    """For each prompt: how many pieces and how many messages were before it."""
    pieces: list[Piece] = []
    messages = 0
    for event in history:
        if isinstance(event, ev.MessageAppended) and event.message.origin is Origin.PROMPT:
            starts.append((len(pieces), messages))
            pieces += printer.message(event.message)
        elif isinstance(event, ev.CommandEntered):
            pieces += [Gap(), *prompt_lines(plain_text(event.text))]
        else:
            pieces += printer.show(event, 0.0)
        messages += isinstance(event, ev.MessageAppended | ev.ReplyStarted)
        if isinstance(event, ev.Result):
            printer.settled()
    first, before = starts[-PROMPTS_SHOWN] if len(starts) >= PROMPTS_SHOWN else (0, 0)
    if before:
        pieces = [line(f"… {counted(before, 'message')} before", "quiet"), *pieces[first:]]
    return [*pieces, Gap()] if pieces else []
