"""Order and heights of the blocks, and which block is at which row. Pure, without painting.

Rows are counted from the top of the whole conversation. Heights change mostly at the end, so the tops of blocks are
running sums that are valid up to the first change and recomputed from there on demand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.tui.blocks.base import Block, BlockLine, gap

if TYPE_CHECKING:
    from agentcli.tui.transcript.folds import CallFold

_BITS = 24
_MIDDLE = 1 << 22
"""Number of the first block: blocks below it count up, blocks inserted above it later count down."""
_ABOVE = 8
"""Maximum number of gap rows, which have positions too."""


class StackEntry:
    __slots__ = (
        "alive",
        "block",
        "fold",
        "gap",
        "index",
        "lines",
        "order",
        "rows",
        "stale",
        "top",
        "version",
        "width",
    )

    def __init__(self, block: Block, order: int, rows: int) -> None:
        self.block = block
        self.order = order
        """Sort key in conversation order that stays valid when blocks are inserted."""
        self.rows = rows
        """Number of rows without the gap; an estimate while `stale` or laid out for another width."""
        self.stale = True
        self.width = 0
        """Transcript width of its last layout."""
        self.lines: Sequence[BlockLine] | None = None
        self.version = 0
        self.fold: CallFold | None = None
        """The run of quiet calls that the block belongs to."""
        self.gap = 0
        self.alive = True
        self.index = 0
        self.top = 0
        """First row, including the gap above. Use `Stack.first_row`."""

    @property
    def space(self) -> int:
        """Number of blank rows above; 0 for a block without rows, so that it leaves no trace."""
        return self.gap if self.rows else 0


class Stack:
    def __init__(self) -> None:
        self.entries: list[StackEntry] = []
        self._by_id: dict[str, StackEntry] = {}
        self._tops: list[int] = []
        self._height = 0
        self._sure = 0
        """Number of entries whose top is valid."""
        self._numbered = 0
        """Number of entries whose index is valid; heights do not affect it."""
        self._added = self._first = _MIDDLE

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[StackEntry]:
        return iter(self.entries)

    def get(self, id: str) -> StackEntry | None:
        return self._by_id.get(id)

    @property
    def last(self) -> StackEntry | None:
        return self.entries[-1] if self.entries else None

    def add(self, block: Block, rows: int = 1) -> StackEntry:
        """Add a block at the end."""
        index = len(self.entries)
        self._added += 1
        entry = self._made(block, rows, self._added)
        self.entries.append(entry)
        self._moved(index)
        self._close_up(index)
        return entry

    def put_above(self, blocks: Sequence[tuple[Block, int]]) -> None:
        """Insert blocks with their rows before all others."""
        self._first -= len(blocks)
        made = [self._made(block, rows, number) for number, (block, rows) in enumerate(blocks, self._first + 1)]
        self.entries[:0] = made
        self._moved(0)
        for index in range(len(made) + 1):
            self._close_up(index)

    def remove(self, id: str) -> StackEntry | None:
        """Remove a block and return its entry; None for an unknown id."""
        entry = self._by_id.pop(id, None)
        if entry is None:
            return None
        index = self.index(entry)
        del self.entries[index]
        entry.alive = False
        self._moved(index)
        self._close_up(index)
        return entry

    def clear(self) -> None:
        for entry in self.entries:
            entry.alive = False
        self.entries.clear()
        self._by_id.clear()
        self._moved(0)

    def set_rows(self, entry: StackEntry, rows: int) -> None:
        if rows == entry.rows:
            return
        appears = bool(rows) != bool(entry.rows)
        self._changed(self.index(entry))
        entry.rows = rows
        if appears:
            self._close_up(entry.index)
            self._close_up(entry.index + 1)

    def close_up(self, entry: StackEntry) -> None:
        """Update the gaps around an entry whose item has changed its kind."""
        index = self.index(entry)
        self._close_up(index)
        self._close_up(index + 1)

    def index(self, entry: StackEntry) -> int:
        if entry.index >= self._numbered or self.entries[entry.index] is not entry:
            for index in range(self._numbered, len(self.entries)):
                self.entries[index].index = index
            self._numbered = len(self.entries)
        return entry.index

    @property
    def height(self) -> int:
        self._count()
        return self._height

    def first_row(self, entry: StackEntry) -> int:
        """First row of the block itself, below its gap."""
        self._count()
        return entry.top + entry.space

    def at(self, row: int) -> tuple[StackEntry, int] | None:
        """The block at a row and the row within it, negative in the gap above. Rows beyond either end belong to the
        first or last block. None if the stack is empty."""
        if not self.entries:
            return None
        self._count()
        index = max(0, bisect_right(self._tops, row) - 1)
        entry = self.entries[index]
        return entry, row - entry.top - entry.space

    def _made(self, block: Block, rows: int, number: int) -> StackEntry:
        """Create an entry; `number` is its position among all blocks."""
        entry = StackEntry(block, number, rows)
        self._by_id[block.item.id] = entry
        return entry

    def _close_up(self, index: int) -> None:
        """Update the gap of the first entry with rows at or below the index to fit the entry above it."""
        entries = self.entries
        while index < len(entries) and not entries[index].rows:
            index = max(index, self._other_end(entries[index], index, -1)) + 1
        if index >= len(entries):
            return
        above = index - 1
        while above >= 0 and not entries[above].rows:
            first = self._other_end(entries[above], above, 0)
            above = first if first < above else above - 1
        space = gap(entries[above].block.item, entries[index].block.item) if above >= 0 else 0
        if space != entries[index].gap:
            entries[index].gap = space
            self._changed(index)

    def _other_end(self, hidden: StackEntry, index: int, end: int) -> int:
        """Index of the first (0) or last (-1) block of the run that hides a block: a run may be long."""
        other = hidden.fold.entries[end] if hidden.fold is not None else hidden
        return self.index(other) if other is not hidden and other.alive else index

    def _moved(self, index: int) -> None:
        self._numbered = min(self._numbered, index)
        self._changed(index)

    def _changed(self, index: int) -> None:
        self._sure = min(self._sure, index)

    def _count(self) -> None:
        first, entries = self._sure, self.entries
        if first == len(entries) == len(self._tops):
            return
        top = 0
        if first:
            last = entries[first - 1]
            top = last.top + last.space + last.rows
        tops = self._tops
        del tops[first:]
        for index in range(first, len(entries)):
            entry = entries[index]
            entry.top = top
            tops.append(top)
            top += entry.space + entry.rows
        self._height = top
        self._sure = len(entries)


def place(entry: StackEntry, row: int) -> int:
    """Row number for selections: increases down the conversation and is stable when blocks above change."""
    return (entry.order << _BITS) + row + _ABOVE
