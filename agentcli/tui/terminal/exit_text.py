"""The text left on the normal screen after the app: the last prompt and its answer, the transcript, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import terminal_text
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import AnswerItem, PromptItem, WelcomeItem
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from agentcli.tui.transcript.widget import Transcript

MAX_ROWS = {"last": 200, "all": 5_000}
"""Maximum number of rows, by the setting `exitTranscript`."""
_MIN_WIDTH = 20


def keep_transcript(transcript: Transcript, wanted: str, width: int) -> str:
    """The text of a transcript that stays. Never raises: without it the app still quits."""
    try:
        return exit_text(transcript.blocks(), wanted, width)
    except Exception:
        import logging

        logging.getLogger("agentcli").exception("the last answer could not be kept on the screen")
        return ""


def exit_text(blocks: Sequence[Block], wanted: str, width: int) -> str:
    """Text for the normal screen, safe for a terminal. With `last`, `blocks` may start at the last prompt."""
    if wanted not in MAX_ROWS:
        return ""
    width, most = max(width, _MIN_WIDTH), MAX_ROWS[wanted]
    if wanted == "last":
        rows = _join(_rows(block, width) for block in _last_exchange(blocks))
        if len(rows) > most:
            rows = [*rows[:most], f"… {counted(len(rows) - most, 'more row')}"]
    else:
        rows = _last_rows(blocks, width, most + 1)
        if len(rows) > most:
            rows = ["… earlier rows are left out", *rows[-most:]]
    return terminal_text("\n".join(rows))


def _last_exchange(blocks: Sequence[Block]) -> list[Block]:
    """The last prompt that is not a command, and the last answer to it, joined if it came in several pieces."""
    first = next((place for place in range(len(blocks) - 1, -1, -1) if is_prompt(blocks[place])), None)
    if first is None:
        return []
    answer: AnswerItem | None = None
    for block in blocks[first:]:
        item = block.item
        if not isinstance(item, AnswerItem) or not block.source.strip():
            continue
        before = answer.text + item.joint if answer is not None and item.joint is not None else ""
        answer = replace(item, text=before + block.source, done=True)
    return [blocks[first], *([make_block(answer)] if answer is not None else [])]


def _last_rows(blocks: Sequence[Block], width: int, enough: int) -> list[str]:
    """At least the last `enough` rows, if there are that many. Does not lay out earlier blocks, maybe thousands."""
    found: list[list[str]] = []
    count = 0
    for block in reversed(blocks):
        if count > enough:
            break
        if not isinstance(block.item, WelcomeItem):
            found.append(_rows(_whole(block), width))
            count += len(found[-1]) + any(found[-1])
    return _join(reversed(found))


def is_prompt(block: Block) -> bool:
    return isinstance(block.item, PromptItem) and not block.item.text.startswith(("/", "!"))


def _whole(block: Block) -> Block:
    """A copy of a block with all of its text: the one on the screen keeps its own width."""
    if isinstance(block.item, AnswerItem):
        return make_block(replace(block.item, text=block.source, done=True))
    return block


def _rows(block: Block, width: int) -> list[str]:
    lines = block.layout(width, Palette())
    while block.behind:
        lines = block.layout(width, Palette())
    return [line.strip.text.rstrip() for line in lines]


def _join(texts: Iterable[list[str]]) -> list[str]:
    rows: list[str] = []
    for block_rows in texts:
        rows += ([""] if rows and any(block_rows) else []) + block_rows
    return rows
