"""Order and heights of the blocks, and which of their rows are in view. Pure, without painting.

Rows are counted from the top of the whole conversation. Heights change mostly at the end, so the tops of blocks are
running sums that are valid up to the first change and recomputed from there on demand. The height of a block that has
not been laid out is an estimate.

The position of the view is stored as block and row, not as a count from the top, so that it stays when blocks above
change. Blocks that come into view are laid out first, so that scrolling uses their true heights.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.tui.blocks.base import Block, BlockLine, gap

if TYPE_CHECKING:
    from agentcli.tui.transcript.items import CallFold

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
        "index",
        "lines",
        "order",
        "role",
        "rows",
        "space",
        "stale",
        "top",
    )

    def __init__(self, block: Block, order: int, rows: int) -> None:
        self.block = block
        self.order = order
        """Sort key in conversation order that stays valid when blocks are inserted."""
        self.rows = rows
        """Number of rows without the gap; an estimate while there are no lines of the current width."""
        self.stale = True
        """Whether its lines are outdated."""
        self.lines: Sequence[BlockLine] | None = None
        self.role = ""
        """What it can be in a run of quiet calls: see `items.role_of`."""
        self.fold: CallFold | None = None
        """The run of quiet calls that the block belongs to."""
        self.alive = True
        self.index = 0
        self.space = 0
        """Number of blank rows above. Use `Stack.space`."""
        self.top = 0
        """First row, including the space above. Use `Stack.first_row`."""


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
        return entry

    def put_above(self, blocks: Sequence[tuple[Block, int]]) -> None:
        """Insert blocks with their rows before all others."""
        self._first -= len(blocks)
        made = [self._made(block, rows, number) for number, (block, rows) in enumerate(blocks, self._first + 1)]
        self.entries[:0] = made
        self._moved(0)

    def remove(self, id: str) -> StackEntry | None:
        """Remove a block and return its entry; None for an unknown id."""
        entry = self._by_id.pop(id, None)
        if entry is None:
            return None
        index = self.index(entry)
        del self.entries[index]
        entry.alive = False
        self._moved(index)
        return entry

    def clear(self) -> None:
        for entry in self.entries:
            entry.alive = False
        self.entries.clear()
        self._by_id.clear()
        self._moved(0)

    def set_rows(self, entry: StackEntry, rows: int) -> None:
        if rows != entry.rows:
            entry.rows = rows
            self.changed(entry)

    def changed(self, entry: StackEntry) -> None:
        """Count the rows again from an entry on, because its height or the kind of its item has changed."""
        self._sure = min(self._sure, self.index(entry))

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
        """First row of the block itself, below the space above it."""
        self._count()
        return entry.top + entry.space

    def space(self, entry: StackEntry) -> int:
        self._count()
        return entry.space

    def at(self, row: int) -> tuple[StackEntry, int] | None:
        """The block at a row and the row within it, negative in the space above. Rows beyond either end belong to the
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

    def _moved(self, index: int) -> None:
        self._numbered = min(self._numbered, index)
        self._sure = min(self._sure, index)

    def _count(self) -> None:
        first, entries = self._sure, self.entries
        if first == len(entries) == len(self._tops):
            return
        top = 0
        if first:
            last = entries[first - 1]
            top = last.top + last.space + last.rows
        above = next((entries[index] for index in range(first - 1, -1, -1) if entries[index].rows), None)
        tops = self._tops
        del tops[first:]
        for index in range(first, len(entries)):
            entry = entries[index]
            entry.top = top
            # A block without rows leaves no trace.
            entry.space = gap(above.block.item, entry.block.item) if above is not None and entry.rows else 0
            above = entry if entry.rows else above
            tops.append(top)
            top += entry.space + entry.rows
        self._height = top
        self._sure = len(entries)


def place(entry: StackEntry, row: int) -> int:
    """Row number for selections: increases down the conversation and is stable when blocks above change."""
    return (entry.order << _BITS) + row + _ABOVE


class Viewport:
    """The visible part of a stack: its position, following the end, and scrolling."""

    def __init__(self, stack: Stack, lay_out: Callable[[StackEntry], object]) -> None:
        self._stack = stack
        self._lay_out = lay_out
        self.height = 0
        self.top = 0
        self.following = True
        self.unseen = False
        """Whether new content arrived below since the view stopped following."""
        self.held = False
        """Whether following is paused by a selection."""
        self._anchor: tuple[StackEntry, int] | None = None

    def settle(self) -> int:
        """Lay out the visible blocks, place the view and return its first row."""
        self.top = self._place()
        self._anchor = self._stack.at(self.top)
        if self.at_end and not self.held:
            self.following, self.unseen = True, False
        return self.top

    @property
    def sees_end(self) -> bool:
        """Whether the view follows the end, or is paused with nothing new below it."""
        return self.following or (self.held and self.at_end)

    @property
    def at_end(self) -> bool:
        return self.top >= self._stack.height - self.height

    def _place(self) -> int:
        if not self.following and (anchor := self._anchored()) is not None:
            entry, row = anchor
            self._lay_out(entry)
            if row < 0:
                self._cover(1, self._beside(entry, -1))  # the space depends on the block above
            row = max(-self._stack.space(entry), min(row, entry.rows - 1))
            if self._cover(self.height - entry.rows + row, self._beside(entry, 1)):
                return self._stack.first_row(entry) + row
        # One row more than the view has, because a gap at its top depends on the block above.
        self._cover(self.height + 1, reversed(self._stack.entries))
        return max(0, self._stack.height - self.height)

    def _cover(self, rows: int, entries: Iterator[StackEntry]) -> bool:
        """Lay out entries until they cover `rows` rows. False if there are too few entries."""
        while rows > 0:
            entry = next(entries, None)
            if entry is None:
                return False
            self._lay_out(entry)
            rows -= self._stack.space(entry) + entry.rows
        return True

    def _anchored(self) -> tuple[StackEntry, int] | None:
        if self._anchor is None or not self._anchor[0].alive:
            self._anchor = self._stack.at(self.top)
        return self._anchor

    def find_place(self, from_end: int) -> None:
        """Return to a distance from the end if the block at the top of the view was replaced by others."""
        if not self.following and self._anchor is not None and not self._anchor[0].alive:
            self._cover(from_end, reversed(self._stack.entries))
            self._anchor = self._stack.at(max(0, self._stack.height - from_end))

    def rows(self) -> list[tuple[StackEntry, int]]:
        rows: list[tuple[StackEntry, int]] = []
        at = self._stack.at(self.top)
        while at is not None and len(rows) < self.height:
            entry, first = at
            rows.extend((entry, row) for row in range(first, min(entry.rows, first + self.height - len(rows))))
            below = next(self._beside(entry, 1), None)
            at = None if below is None else (below, -self._stack.space(below))
        return rows

    def _beside(self, entry: StackEntry, way: int) -> Iterator[StackEntry]:
        """The entries above (-1) or below (1) an entry, the nearest first."""
        entries, index = self._stack.entries, self._stack.index(entry) + way
        while 0 <= index < len(entries):
            yield entries[index]
            index += way

    def nearest(self) -> list[StackEntry]:
        """All blocks: upwards from the end of the view, then downwards."""
        entries = self._stack.entries
        end = self._stack.at(self.top + self.height)
        below = self._stack.index(end[0]) + 1 if end is not None else 0
        return [*reversed(entries[:below]), *entries[below:]]

    def follow(self) -> None:
        self.following, self.unseen, self.held = True, False, False
        self.settle()

    def hold(self, held: bool) -> None:
        """Pause following; it resumes afterwards."""
        if held and self.following:
            self.following, self.held = False, True
        elif not held and self.held:
            self.follow()

    def stay(self) -> None:
        self.following = self.held = False

    def look_at(self, entry: StackEntry, row: int) -> None:
        self.stay()
        self._anchor = entry, row
        self.settle()

    def look_at_row(self, row: int) -> None:
        """Scroll to a row counted from the top of the conversation, where heights may be estimates."""
        at = self._stack.at(max(0, row))
        if at is not None:
            self.look_at(*at)

    def look_at_top_of(self, entry: StackEntry) -> None:
        """Scroll to the first row of this block if the view begins inside it."""
        anchor = self._anchored()
        if anchor is not None and anchor[0] is entry:
            self._anchor = entry, min(0, anchor[1])

    def scroll(self, rows: int) -> None:
        anchor = self._anchored()
        if anchor is None or not rows:
            return
        entry, row = anchor
        row += rows
        while row < -self._stack.space(entry) and (above := next(self._beside(entry, -1), None)) is not None:
            beyond = row + self._stack.space(entry)
            self._lay_out(above)
            entry, row = above, above.rows + beyond
        while row >= entry.rows and (below := next(self._beside(entry, 1), None)) is not None:
            beyond = row - entry.rows
            self._lay_out(below)
            entry, row = below, beyond - self._stack.space(below)
        self.look_at(entry, row)
