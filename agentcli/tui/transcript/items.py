"""All blocks of the conversation: operations, folding and true heights, independent of the screen.

Errors of a block are caught and logged here, so that the other blocks are still shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from agentcli.tui.blocks.base import Block
from agentcli.tui.model import Add, Clear, CountLines, Grow, Item, Operation, Remove, Replace, pack_item
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.folds import CallFold, CallFolds
from agentcli.tui.transcript.layouts import BrokenBlock, Layouts
from agentcli.tui.transcript.search import TranscriptSearch
from agentcli.tui.transcript.stack import Stack, StackEntry

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
