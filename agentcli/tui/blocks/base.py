"""Base class of all blocks: an item, and its lines at a given width.

`layout` is called again only when the block or the width changed, or when the lines were dropped to save memory, so it
may be expensive; each frame only paints the lines' strips. Blocks know nothing of the screen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual.strip import Strip

from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.agents import AgentItem
from agentcli.tui.model import Item, NoticeItem, OutputItem, PromptItem, ToolItem, pack_item
from agentcli.tui.theme.palette import Palette


@dataclass(frozen=True, slots=True)
class BlockLine:
    """One row. `strip` is painted and is never wider than the requested width; the other fields are for copying."""

    strip: Strip
    text: str = ""
    """Text copied for the whole row: source text without gutter, padding and decoration."""
    indent: int = 0
    joint: str = "\n"
    """Source text between this row and the next: a line break, or the blank at which the line was wrapped."""


class Block(ABC):
    """A block of the transcript, which owns it. `expanded` shows the parts that are otherwise folded."""

    foldable = False
    """Whether expanding shows more; a click on a foldable block toggles it."""

    behind = False
    """Whether the last `layout` left part of the text to the next call, because all at once would take too long."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.expanded = False

    @abstractmethod
    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        """Return all lines at this width. Called again after a change; unchanged parts may be cached, and the returned
        list may be the same one, changed in place. Never raises for any text and any width from 1 up."""

    def replace(self, item: Item) -> None:
        self.item = item
        self.forget()

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        raise NotImplementedError

    def count_lines(self, line_breaks: int) -> None:  # noqa: B027 -- only calls have output that `grow` omits
        """Set the number of line breaks of the whole output, including the part that never came with `grow`."""

    def forget(self) -> None:  # noqa: B027 -- most blocks cache nothing
        """Drop everything that `layout` can compute again."""

    def pack(self) -> None:
        """Compress and deduplicate long texts, for a block far above the visible part. Its fields read as before."""
        pack_item(self.item)

    def tick(self, now: float) -> bool:
        """Update live values such as durations. Called a few times a second while the block is visible and active.
        Return whether its lines change."""
        return False

    @property
    def source(self) -> str:
        return str(getattr(self.item, "text", ""))


def gap(before: Item, after: Item) -> int:
    """Number of blank rows between two consecutive blocks."""
    if isinstance(before, ToolItem | AgentItem) and isinstance(after, ToolItem | AgentItem):
        return 0
    if isinstance(before, NoticeItem) and isinstance(after, NoticeItem):
        return 0
    if isinstance(before, PromptItem) and isinstance(after, OutputItem):
        return 0
    return 1
