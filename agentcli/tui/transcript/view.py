"""Which rows of the conversation are in view: position, following the end, and scrolling.

A position is stored as block and row, not as a count from the top, so that it stays when blocks above change. Blocks
that come into view are laid out first, so that scrolling uses their true heights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.model import Item
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.stack import StackEntry


class Viewport:
    def __init__(self, items: TranscriptItems) -> None:
        self._items = items
        self._stack = items.stack
        self._lines = items.layouts.lines
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
        if not self.following:
            entry, row = self._anchored() or (None, 0)
            if entry is not None:
                self._lines(entry)
                if row < 0:
                    self._cover(1, self.above(entry))  # the gap depends on the block above
                row = max(-entry.space, min(row, entry.rows - 1))
                if self._cover(self.height - entry.rows + row, self.below(entry)):
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
            self._lines(entry)
            rows -= entry.space + entry.rows
        return True

    def _anchored(self) -> tuple[StackEntry, int] | None:
        if self._anchor is None or not self._anchor[0].alive:
            self._anchor = self._stack.at(self.top)
        return self._anchor

    def successor(self, removed: Sequence[str], items: Sequence[Item]) -> tuple[str, int] | None:
        """Id and row where the view belongs after `items` replace removed ones with the same end. None if the view
        follows the end or begins elsewhere."""
        anchor = None if self.following else self._anchored()
        if anchor is None or (id := anchor[0].block.item.id) not in removed:
            return None
        from_end = len(removed) - removed.index(id)
        found = next((item for item in items if item.id == id), None)
        if found is None and from_end <= len(items):
            found = items[-from_end]
        return (found.id, anchor[1]) if found is not None else None

    def begin_at(self, entry: StackEntry, row: int) -> None:
        """Place the view with the next layout. Unlike `look_at`, this does not count as scrolling by the user."""
        self._anchor = entry, row

    def rows(self) -> list[tuple[StackEntry, int]]:
        rows: list[tuple[StackEntry, int]] = []
        at = self._stack.at(self.top)
        while at is not None and len(rows) < self.height:
            entry, first = at
            rows.extend((entry, row) for row in range(first, min(entry.rows, first + self.height - len(rows))))
            below = next(self.below(entry), None)
            at = None if below is None else (below, -below.space)
        return rows

    def above(self, entry: StackEntry) -> Iterator[StackEntry]:
        entries = self._stack.entries
        for index in range(self._stack.index(entry) - 1, -1, -1):
            yield entries[index]

    def below(self, entry: StackEntry) -> Iterator[StackEntry]:
        entries = self._stack.entries
        for index in range(self._stack.index(entry) + 1, len(entries)):
            yield entries[index]

    def nearest(self, rows: int | None = None) -> Iterator[StackEntry]:
        """All blocks, or those within a number of rows: upwards from the end of the view, then downwards."""
        entries = self._stack.entries
        end = self._stack.at(self.top + self.height)
        here = self._stack.index(end[0]) if end is not None else -1
        for way in (range(here, -1, -1), range(here + 1, len(entries))):
            passed = 0
            for index in way:
                if rows is not None and passed > rows:
                    break
                yield entries[index]
                passed += entries[index].rows

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

    def keep_line(self, fold: Callable[[], object]) -> None:
        """Open or fold blocks, keeping the line at the top of the view in place if it is visible before and after."""
        anchor = self._anchored()
        if anchor is None or anchor[1] < 0:
            fold()
            return
        entry, row = anchor
        before = self._lines(entry)
        fold()
        self._anchor = entry, _same_line(before, self._lines(entry), row)

    def scroll(self, rows: int) -> None:
        anchor = self._anchored()
        if anchor is None or not rows:
            return
        entry, row = anchor
        row += rows
        entries = self._stack.entries
        index = self._stack.index(entry)
        while row < -entry.space and index:
            beyond = row + entry.space
            index -= 1
            entry = entries[index]
            self._lines(entry)
            row = entry.rows + beyond
        while row >= entry.rows and index + 1 < len(entries):
            beyond = row - entry.rows
            index += 1
            entry = entries[index]
            self._lines(entry)
            row = beyond - entry.space
        self.look_at(entry, row)


def _same_line(before: Sequence[BlockLine], after: Sequence[BlockLine], row: int) -> int:
    """Find a row in another layout of its block. Folding omits a range: rows of the common beginning or end keep their
    line, and rows in between map to the place of the omission."""
    sources = [(one.text, one.joint) for one in before], [(one.text, one.joint) for one in after]
    shorter = min(len(before), len(after))
    head = next((place for place in range(shorter) if sources[0][place] != sources[1][place]), shorter)
    tail = next((place for place in range(shorter) if sources[0][~place] != sources[1][~place]), shorter)
    if row < head:
        return row
    from_end = len(before) - row
    return len(after) - from_end if from_end <= tail else min(head, max(0, len(after) - 1))
