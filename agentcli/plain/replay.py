"""The end of a conversation that is gone on with, so that one knows where one is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.messages import Message, Origin, TextBlock, ToolUseBlock
from agentcli.core.plaintext import plain_line, plain_text
from agentcli.plain.pieces import Answer, AnswerEnd, Gap, Piece, line
from agentcli.plain.printer import Printer, Titles

PROMPTS_SHOWN = 2


def replayed(messages: Sequence[Message], title_of: Titles) -> list[Piece]:
    """From the last but one prompt on: what was said and which calls were made. The rest is only counted."""
    shown = [message for message in messages if not message.is_copy]
    prompts = [place for place, message in enumerate(shown) if message.origin is Origin.PROMPT]
    first = prompts[-PROMPTS_SHOWN] if len(prompts) >= PROMPTS_SHOWN else 0
    printer = Printer(title_of)
    pieces: list[Piece] = []
    if first:
        pieces.append(line(f"… {first:,} messages before", "quiet"))
    for message in shown[first:]:
        pieces += _reply(message, title_of) if message.origin is Origin.REPLY else _other(message, printer)
    return [*pieces, Gap()] if pieces else []


def _reply(message: Message, title_of: Titles) -> list[Piece]:
    pieces: list[Piece] = []
    for block in message.content:
        if isinstance(block, TextBlock) and block.text.strip():
            pieces += [Gap(), Answer(plain_text(block.text).strip("\n")), AnswerEnd(), Gap()]
        elif isinstance(block, ToolUseBlock):
            pieces.append(line(plain_line(title_of(block.name, block.input) or block.name, 2_000), mark="* "))
    return pieces


def _other(message: Message, printer: Printer) -> list[Piece]:
    match message.origin:
        case Origin.INTERRUPTION:
            return printer.note("Interrupted.", "warning")
        case Origin.ERROR:
            return printer.note(message.text, "error")
    return printer.message(message)
