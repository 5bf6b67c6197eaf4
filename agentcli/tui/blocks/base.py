"""What every block is: an item, and its lines at a width.

A block is asked for its lines again only when it changed, the width changed or its lines were dropped to save memory,
so `layout` may cost something; what is painted on every frame are the lines' strips. Nothing here knows the screen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual.strip import Strip

from agentcli.tui.model import Item, pack_item
from agentcli.tui.theme.palette import Palette


@dataclass(frozen=True, slots=True)
class BlockLine:
    """One row. `strip` is what is painted and is never wider than the width asked for; the rest is for copying."""

    strip: Strip
    text: str = ""
    """What copying the whole row gives: source text without gutter, padding and decoration."""
    indent: int = 0
    joint: str = "\n"
    """Text between this row and the next in the source: a line break, or the blank that wrapping swallowed."""


class Block(ABC):
    """Owned by the transcript. `expanded` shows all of what is otherwise folded."""

    foldable = False
    """Whether expanding shows more than is shown now; a click on a foldable block toggles it."""

    behind = False
    """Whether `layout` left some of the text for the next time, because all at once would take too long."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.expanded = False

    @abstractmethod
    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        """All lines at this width. Called again after a change; what did not change may be kept. May return the same
        list, changed in place. Never raises for any text and any width from 1 up."""

    def replace(self, item: Item) -> None:
        self.item = item
        self.forget()

    def grow(self, text: str) -> None:
        raise NotImplementedError

    def count_lines(self, line_breaks: int) -> None:  # noqa: B027 -- only calls have output that is left out
        """Line breaks of all that `grow` should have shown, also of what was left out."""

    def forget(self) -> None:  # noqa: B027 -- most blocks keep nothing
        """Drop everything that `layout` can make again."""

    def pack(self) -> None:
        """Keep long texts compressed and once: the block is far above what is looked at. It reads as before."""
        pack_item(self.item)

    def tick(self, now: float) -> bool:
        """Called a few times a second while visible and busy (live durations); whether it looks different now."""
        return False

    @property
    def source(self) -> str:
        return str(getattr(self.item, "text", ""))
