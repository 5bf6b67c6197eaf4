"""Search in the conversation: parses queries, finds them on painted rows, and goes from match to match.

Searches the visible text, row by row with wrapped lines joined, and the source of folded blocks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from time import perf_counter
from typing import NamedTuple

from agentcli.core.frozen import frozen
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.glyphs import Cluster, clusters
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.stack import StackEntry, StyledCells, Viewport

MAX_MATCHES = 10_000
"""Maximum matches per block."""


class Spot(NamedTuple):
    """A part of a match on one row, in cells of the block."""

    row: int
    start: int
    end: int


FoundSpots = tuple[Spot, ...]
"""The rows of a match; none for one in the part of a folded block that is not shown."""


@frozen
class Query:
    """Case-sensitive only if the query has a capital; blanks match any white space, including the end of a line."""

    pattern: re.Pattern[str]
    words: tuple[str, ...]
    """The parts between blanks, in lower case."""

    def may_match(self, block: Block) -> bool:
        """Whether a block's source contains all words, which costs a hundredth of a layout. Decorations such as the
        sign of a fold are not in the source, so they are not found."""
        source = block.source.lower()
        return all(word in source for word in self.words)


def parse_query(text: str) -> Query | None:
    parts = text.split()
    if not parts:
        return None
    flags = 0 if text != text.lower() else re.IGNORECASE
    pattern = re.compile(r"\s+".join(re.escape(part) for part in parts), flags)
    return Query(pattern, tuple(part.lower() for part in parts))


def matches_in(lines: Sequence[BlockLine], query: Query) -> list[FoundSpots]:
    texts = [_visible(line) for line in lines]
    joined = [text + line.joint for text, line in zip(texts, lines, strict=True)]
    starts = list(accumulate(map(len, joined), initial=0))
    found: list[FoundSpots] = []
    for match in islice(query.pattern.finditer("".join(joined)), MAX_MATCHES):
        spots: list[Spot] = []
        for row in range(bisect_right(starts, match.start()) - 1, len(lines)):
            first, last = max(0, match.start() - starts[row]), min(len(texts[row]), match.end() - starts[row])
            if first < last:
                left, right = _cells(texts[row], first, last)
                spots.append(Spot(row, lines[row].indent + left, lines[row].indent + right))
            elif starts[row] >= match.end():
                break
        if spots:
            found.append(tuple(spots))
    return found


def hidden_matches(block: Block, query: Query, shown: int) -> int:
    """Number of matches in the source of a folded block, besides the visible ones."""
    if not block.foldable or block.expanded:
        return 0
    return max(0, sum(1 for _match in islice(query.pattern.finditer(block.source), MAX_MATCHES)) - shown)


def _visible(line: BlockLine) -> str:
    """Painted text behind the gutter, without padding."""
    text = line.strip.text
    if not line.indent:
        return text.rstrip()
    if text.isascii():
        return text[line.indent :].rstrip()
    first: Cluster | None = next((cluster for cluster in clusters(text) if cluster.left >= line.indent), None)
    return text[first.start :].rstrip() if first else ""


def _cells(text: str, start: int, end: int) -> tuple[int, int]:
    if text.isascii():
        return start, end
    covered = [cluster for cluster in clusters(text) if cluster.end > start and cluster.start < end]
    return covered[0].left, covered[-1].right


class Finder:
    """Searches the conversation for a query and scrolls to the current match."""

    def __init__(self, items: TranscriptItems, view: Viewport) -> None:
        self._items = items
        self._view = view
        items.on_change = self._entry_changed
        self._query: Query | None = None
        self._found: dict[StackEntry, list[FoundSpots]] = {}
        self._due: dict[StackEntry, None] = {}
        """Blocks to search next, the nearest first; until then their old matches count."""
        self._current: tuple[StackEntry, int] | None = None
        self.has_wrapped = False
        """Whether the last step wrapped around to the other end of the conversation."""
        self._opened: list[StackEntry] = []
        """Folded blocks that the search opened to show a match."""
        self.keeps_current = False
        """Whether the block with the current match stays open when the search ends."""

    @property
    def is_searching(self) -> bool:
        return bool(self._due)

    @property
    def count(self) -> int:
        return sum(map(len, self._found.values()))

    @property
    def position(self) -> int:
        """Number of the current match, counted from the top; 0 if there is none."""
        if self._current is None:
            return 0
        here, number = self._current
        return sum(len(matches) for entry, matches in self._found.items() if entry.order < here.order) + number + 1

    def start(self, query: Query) -> None:
        self._query, self._current = query, None
        self._found.clear()
        self.has_wrapped = self.keeps_current = False
        self._due = dict.fromkeys(self._view.nearest())

    def stop(self) -> None:
        if self._query is None:
            return
        kept = self._current[0] if self.keeps_current and self._current is not None else None
        opened, self._opened = self._opened, []
        self._query, self._current = None, None
        self._found.clear()
        self._due.clear()
        for entry in opened:
            if entry is not kept and entry.alive and not self._items.details:
                self._items.expand(entry, False)
        self._view.hold(False)

    def _entry_changed(self, entry: StackEntry) -> None:
        if self._query is not None:
            self._due[entry] = None

    def search(self, deadline: float) -> None:
        """Search the blocks that are due, until the deadline."""
        while self._due:
            entry = next(iter(self._due))
            self._look(entry)
            if self._current is None and entry in self._found:
                self._enter(entry, -1)
                self._show(-1)
            if perf_counter() >= deadline:
                break

    def _look(self, entry: StackEntry) -> None:
        """Find the matches of one block."""
        self._due.pop(entry, None)
        self._found.pop(entry, None)
        if self._query is not None and entry.alive and self._query.may_match(entry.block):
            lines = self._items.whole_lines(entry)
            self._due.pop(entry, None)
            matches = matches_in(lines, self._query)
            matches += [()] * hidden_matches(entry.block, self._query, len(matches))
            if matches:
                self._found[entry] = matches
        if self._current is not None and self._current[0] is entry:
            matches = self._found.get(entry, [])
            self._current = (entry, min(self._current[1], len(matches) - 1)) if matches else None

    def step(self, direction: int) -> None:
        """Go to the next match, wrapping at the ends."""
        if self._move(direction):
            self._show(direction)

    def _move(self, direction: int) -> bool:
        self.has_wrapped = False
        if self._current is not None:
            entry, number = self._current
            if 0 <= number + direction < len(self._found.get(entry, ())):
                self._current = entry, number + direction
                return True
        holders = sorted(self._found, key=lambda entry: entry.order)
        if not holders:
            self._current = None
            return False
        here = self._current[0].order if self._current is not None else None
        ahead = [entry for entry in holders if here is not None and (entry.order - here) * direction > 0]
        self.has_wrapped = here is not None and not ahead
        self._enter((ahead or holders)[0 if direction > 0 else -1], direction)
        return True

    def _enter(self, entry: StackEntry, direction: int) -> None:
        self._current = entry, 0 if direction > 0 else len(self._found[entry]) - 1

    def marks(self, entry: StackEntry) -> dict[int, list[StyledCells]]:
        """Highlighted cells of a block, by row."""
        if entry in self._due:
            self._look(entry)
        marks: dict[int, list[StyledCells]] = {}
        for number, match in enumerate(self._found.get(entry, ())):
            style = self._items.palette.match_current if self._current == (entry, number) else self._items.palette.match
            for spot in match:
                marks.setdefault(spot.row, []).append((spot.start, spot.end, style))
        return marks

    def _show(self, direction: int) -> None:
        """Scroll to the current match, opening a folded block that contains it."""
        while self._current is not None and not self._found[self._current[0]][self._current[1]]:
            entry, has_wrapped = self._current[0], self.has_wrapped
            self._items.expand(entry, True)
            self._opened.append(entry)
            self._look(entry)
            if entry not in self._found:
                self._current = entry, 0
                self._move(direction)
            elif direction < 0:
                self._enter(entry, direction)
            self.has_wrapped |= has_wrapped
        if self._current is None:
            return
        entry, number = self._current
        self._items.lines(entry)
        self._view.settle()  # the layout moved the blocks below
        row = self._found[entry][number][0].row
        first = self._items.stack.first_row(entry) + row
        if not self._view.top < first < self._view.top + self._view.height - 1:
            self._view.look_at(entry, row)
            # Near the end of the conversation there are already rows above it.
            above = self._items.stack.first_row(entry) + row - self._view.top
            self._view.scroll(min(0, above - self._view.height // 3))
        self._view.hold(True)  # otherwise new output would scroll the match away
