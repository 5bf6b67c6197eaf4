"""What stays on the normal screen once the app has left: the last prompt and its answer, all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentcli.core.plaintext import terminal_text
from agentcli.core.plural import counted
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.make import make_block
from agentcli.tui.model import AnswerItem, PromptItem, WelcomeItem
from agentcli.tui.theme.palette import Palette

MOST_ROWS = {"last": 200, "all": 5_000}
"""Rows that are kept at most, by the setting `exitTranscript`."""
_NARROWEST = 20


def exit_text(blocks: Sequence[Block], wanted: str, width: int) -> str:
    """The text for the normal screen, without anything that a terminal would obey. `blocks`: those from the last prompt
    on are enough for `last`."""
    if wanted not in MOST_ROWS:
        return ""
    chosen = _last_exchange(blocks) if wanted == "last" else _all(blocks)
    rows = _rows(chosen, max(width, _NARROWEST))
    most = MOST_ROWS[wanted]
    if len(rows) > most and wanted == "last":
        rows = [*rows[:most], f"… {counted(len(rows) - most, 'more row')}"]
    elif len(rows) > most:
        rows = [f"… {counted(len(rows) - most, 'row')} before", *rows[-most:]]
    return terminal_text("\n".join(rows))


def _last_exchange(blocks: Sequence[Block]) -> list[Block]:
    """The last prompt that is no command, and the last answer to it."""
    first = next((place for place in range(len(blocks) - 1, -1, -1) if is_prompt(blocks[place])), None)
    if first is None:
        return []
    answers = [block for block in blocks[first:] if isinstance(block.item, AnswerItem) and not block.item.parent]
    return [_whole(block) for block in (blocks[first], *answers[-1:])]


def _all(blocks: Iterable[Block]) -> list[Block]:
    return [_whole(block) for block in blocks if not isinstance(block.item, WelcomeItem)]


def is_prompt(block: Block) -> bool:
    return isinstance(block.item, PromptItem) and not block.item.text.startswith(("/", "!"))


def _whole(block: Block) -> Block:
    """A block with all of its text, laid out anew: the one on the screen keeps its own width."""
    if isinstance(block.item, AnswerItem):
        return make_block(replace(block.item, text=block.source, done=True))
    return block


def _rows(blocks: Iterable[Block], width: int) -> list[str]:
    rows: list[str] = []
    for block in blocks:
        lines = block.layout(width, Palette())
        while block.behind:
            lines = block.layout(width, Palette())
        texts = [line.strip.text.rstrip() for line in lines]
        rows += ([""] if rows and any(texts) else []) + texts
    return rows
