"""Cache of the blocks' lines, laid out on demand. An error in a block does not end the app.

Heights stay known when lines are dropped. Of the screen only the width is known here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.model import Item
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.stack import Stack, StackEntry

MAX_ROWS = 1000
"""Maximum number of cached rows of blocks out of view: about 25 screens. A row takes about 5 KB."""


class BrokenBlock(Block):
    def __init__(self, item: Item, error: Exception) -> None:
        super().__init__(item)
        self.error = error

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        return [cannot_show(self.error, width, palette.error)]

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        """Ignored: there is no content to extend."""


class Layouts:
    def __init__(self, stack: Stack, palette: Palette, most_rows: int = MAX_ROWS) -> None:
        self.stack = stack
        self.palette = palette
        self.width = 0
        self.most_rows = most_rows
        self._kept: dict[StackEntry, int] = {}
        """Number of rows of the entries that have lines, least recently used first."""
        self.rows_kept = 0

    def lines(self, entry: StackEntry) -> Sequence[BlockLine]:
        if entry.lines is None or entry.stale:
            entry.lines = self._lay_out(entry)
            entry.stale = False
            entry.width = self.width
            entry.version += 1
            self.stack.set_rows(entry, len(entry.lines))
        rows = len(entry.lines)
        self.rows_kept += rows - self._kept.pop(entry, 0)
        self._kept[entry] = rows
        return entry.lines

    def is_sure(self, entry: StackEntry) -> bool:
        """Whether its height is exact, not an estimate."""
        return not entry.stale and entry.width == self.width

    def measure(self, entry: StackEntry) -> None:
        """Compute the exact height. The lines may be dropped again immediately."""
        if self.is_sure(entry):
            return
        self.lines(entry)
        while entry.block.behind:
            entry.stale = True
            self.lines(entry)
        if self.rows_kept > self.most_rows:
            self.drop(entry)

    def set_width(self, width: int) -> None:
        """Set the width; all heights become estimates. Only entries with lines are touched, however many there are."""
        self.width = width
        for entry in self._kept:
            entry.lines = None
        self._kept.clear()
        self.rows_kept = 0

    def set_palette(self, palette: Palette) -> None:
        """Set the colours, which does not change heights."""
        self.palette = palette
        for entry in self.stack:
            self.drop(entry)

    def drop(self, entry: StackEntry) -> None:
        """Drop the lines, which will be laid out again; keep the height."""
        self.rows_kept -= self._kept.pop(entry, 0)
        entry.lines = None
        try:
            entry.block.forget()
        except Exception:
            logging.getLogger("agentcli").exception("a block cannot forget: %r", type(entry.block).__name__)

    def removed(self, entry: StackEntry) -> None:
        self.rows_kept -= self._kept.pop(entry, 0)
        entry.lines = None

    def trim(self, visible: set[StackEntry]) -> None:
        """Drop the least recently used lines, except those of visible blocks."""
        if self.rows_kept <= self.most_rows:
            return
        for entry in [entry for entry in self._kept if entry not in visible]:
            self.drop(entry)
            if self.rows_kept <= self.most_rows:
                break

    def _lay_out(self, entry: StackEntry) -> Sequence[BlockLine]:
        width, fold = self.width, entry.fold
        try:
            heading = [fold.line(width, self.palette)] if fold is not None and fold.entries[0] is entry else []
            if fold is not None and fold.hides(entry):
                entry.block.foldable = True
                return heading
            # A copy, because a block may change its list in place, while painting compares with the old lines.
            return [*heading, *entry.block.layout(width, self.palette)]
        except Exception as error:
            logging.getLogger("agentcli").exception("a block cannot be shown: %r", type(entry.block).__name__)
            return [cannot_show(error, width, self.palette.error)]


def cannot_show(error: Exception, width: int, style: Style) -> BlockLine:
    reason = plain_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    text = f"(this block cannot be shown: {reason})"
    return BlockLine(Strip([Segment(text, style)]).crop(0, max(1, width)), text)
