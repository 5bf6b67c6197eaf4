"""All blocks of the conversation: operations, folding and true heights, independent of the screen.

Errors of a block are caught and logged here, so that the other blocks are still shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.model import Add, Clear, CountLines, Grow, Item, Operation, Remove, Replace, pack_item
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.folds import CallFold, CallFolds
from agentcli.tui.transcript.search import TranscriptSearch
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


UNPACKED = 100
"""Number of items at the end whose texts stay uncompressed. Earlier ones are packed, and unpacked for a layout."""


class TranscriptItems:
    def __init__(self, make_block: Callable[[Item], Block], palette: Palette) -> None:
        self._make_block = make_block
        self.stack = Stack()
        self.layouts = Layouts(self.stack, palette)
        self._folds = CallFolds(self.stack, self._refold)
        self.details = False
        self.search: TranscriptSearch | None = None
        self.unsure = False
        """Whether any block may have an estimated height."""

    def apply(self, operations: Iterable[Operation]) -> bool:
        """Apply operations without layout. Return whether anything was added below."""
        more = False
        for operation in operations:
            match operation:
                case Add(item):
                    self._add(item)
                    more = True
                case Grow(id, text, colours):
                    more |= self._change(id, lambda block, grown=(text, colours): block.grow(*grown))  # type: ignore[misc]
                case CountLines(id, line_breaks):
                    self._change(id, lambda block, count=line_breaks: block.count_lines(count))  # type: ignore[misc]
                case Replace(item):
                    self._replace(item)
                case Remove(id):
                    if (entry := self.stack.remove(id)) is not None:
                        self._removed(entry)
                        self._folds.removed(entry)
                case Clear():
                    for entry in self.stack:
                        self._removed(entry)
                    self.stack.clear()
        return more

    def _add(self, item: Item) -> None:
        if self.stack.get(item.id) is not None:
            self._replace(item)
            return
        entry = self.stack.add(*self._made(item))
        self.unsure = True
        self._folds.update(entry)
        if len(self.stack) > UNPACKED:
            self.stack.entries[-1 - UNPACKED].block.pack()

    def _replace(self, item: Item) -> None:
        entry = self.stack.get(item.id)
        if entry is None:
            return
        if type(entry.block.item) is type(item):
            self._change(item.id, lambda block: block.replace(item))
        else:
            # A call has become an agent: replace its block in place.
            entry.block = self._made(item)[0]
            self.stack.close_up(entry)
            self.stale(entry)
        self._folds.update(entry)

    def put_above(self, items: Sequence[Item]) -> None:
        self.stack.put_above([self._made(item) for item in items])
        for entry in self.stack.entries[: len(items)]:
            self._folds.update(entry)
        for item in items:
            pack_item(item)
        self.unsure = True

    def _made(self, item: Item) -> tuple[Block, int]:
        block: Block
        try:
            block = self._make_block(item)
        except Exception as error:  # noqa: BLE001 - logged; the other blocks are shown
            _log("no block can be made for", item)
            block = BrokenBlock(item, error)
        block.expanded = block.expanded or self.details
        return block, 1 + len(str(getattr(item, "text", ""))) // 80

    def _change(self, id: str, change: Callable[[Block], None]) -> bool:
        entry = self.stack.get(id)
        if entry is None:
            return False
        try:
            change(entry.block)
        except Exception:  # noqa: BLE001 - logged; the other blocks are shown
            _log("a change cannot be shown in", entry.block)
        self.stale(entry)
        return True

    def _removed(self, entry: StackEntry) -> None:
        self.layouts.removed(entry)
        if self.search is not None:
            self.search.removed(entry)

    def stale(self, entry: StackEntry) -> None:
        """Mark a block whose lines are outdated."""
        entry.stale = self.unsure = True
        if self.search is not None:
            self.search.forget(entry)

    def _refold(self, entry: StackEntry) -> None:
        """Lay a block out again that a run of calls begins or stops to hide."""
        if not entry.alive:
            return
        self.stale(entry)
        fold = entry.fold
        if fold is not None and fold.hides(entry):
            entry.block.foldable = True
            self.layouts.drop(entry)
            self.stack.set_rows(entry, 1 if fold.entries[0] is entry else 0)

    def toggle_fold(self, fold: CallFold) -> None:
        """Open a run of quiet calls, or close it with all its blocks."""
        fold.is_open = any(fold.hides(entry) for entry in fold.entries)
        for entry in fold.entries:
            entry.block.expanded &= fold.is_open
            self.layouts.drop(entry)
            self._refold(entry)

    def tick(self, entries: Iterable[StackEntry], now: float) -> bool:
        changed = False
        for entry in entries:
            try:
                ticked = entry.block.tick(now)
            except Exception:  # noqa: BLE001 - logged; the other blocks are shown
                _log("the clock stands still in", entry.block)
                continue
            if ticked:
                self.stale(entry)
                changed = True
        return changed

    def toggle_details(self) -> bool:
        self.details = not self.details
        for entry in self.stack:
            self.expand(entry, self.details)
        return self.details

    def expand(self, entry: StackEntry, expanded: bool) -> None:
        block = entry.block
        if block.expanded == expanded:
            return
        folds = block.foldable or block.expanded
        block.expanded = expanded
        if folds:
            self.layouts.drop(entry)
            self.stale(entry)
            if entry.fold is not None:
                self.stale(entry.fold.entries[0])

    def set_width(self, width: int) -> None:
        self.layouts.set_width(width)
        self.unsure = bool(len(self.stack))
        if self.search is not None:
            self.search.forget_all()

    def measure(self, entries: Iterable[StackEntry], deadline: float) -> bool:
        """Compute true heights in this order until the deadline. Return whether any changed."""
        moved = False
        for entry in entries:
            if self.layouts.is_sure(entry):
                continue
            rows = entry.rows
            self.layouts.measure(entry)
            moved |= rows != entry.rows
            if perf_counter() >= deadline:
                return moved
        self.unsure = False
        return moved

    def source_text(self) -> str:
        sources = (entry.block.source.strip("\n") for entry in self.stack)
        return "".join(f"{source}\n\n" for source in sources if source.strip()).rstrip("\n") + "\n"


def _log(what: str, culprit: Item | Block) -> None:
    logging.getLogger("agentcli").exception("%s %s", what, type(culprit).__name__)
