"""The rows of the transcript: order and heights of the blocks, which rows are in view, and how those are painted.

Rows are counted from the top of the whole conversation. Heights change mostly at the end, so the tops of blocks are
running sums that are valid up to the first change and recomputed from there on demand. The height of a block that has
not been laid out is an estimate.

The position of the view is stored as block and row, not as a count from the top, so that it stays when blocks above
change. Blocks that come into view are laid out first, so that scrolling uses their true heights.

Painting adds highlights over rows and finds the source text of selected cells: no gutters, no padding, and wrapped
lines are joined.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import Block, BlockLine, gap
from agentcli.tui.glyphs import clusters

if TYPE_CHECKING:
    from agentcli.tui.transcript.items import CallFold

_BITS = 24
_MIDDLE = 1 << 22
"""Number of the first block: blocks below it count up, blocks inserted above it later count down."""
_ABOVE = 8
"""Maximum number of gap rows, which have positions too."""


@dataclass(slots=True, eq=False)
class StackEntry:
    block: Block
    order: int
    """Sort key in conversation order that stays valid when blocks are inserted."""
    rows: int
    """Number of rows without the gap; an estimate while there are no lines of the current width."""
    stale: bool = True
    """Whether its lines are outdated."""
    lines: Sequence[BlockLine] | None = None
    role: str = ""
    """What it can be in a run of quiet calls: see `items.role_of`."""
    fold: CallFold | None = None
    """The run of quiet calls that the block belongs to."""
    alive: bool = True
    space: int = 0
    """Number of blank rows above. Use `Stack.space`."""
    top: int = 0
    """First row, including the space above. Use `Stack.first_row`."""


class Stack:
    def __init__(self) -> None:
        self.entries: list[StackEntry] = []
        self._by_id: dict[str, StackEntry] = {}
        self._tops: list[int] = []
        self._height = 0
        self._sure = 0
        """Number of entries whose top is valid."""
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
        self._added += 1
        entry = self._make(block, rows, self._added)
        self.entries.append(entry)
        return entry

    def put_above(self, blocks: Sequence[tuple[Block, int]]) -> None:
        """Insert blocks with their rows before all others."""
        self._first -= len(blocks)
        made = [self._make(block, rows, number) for number, (block, rows) in enumerate(blocks, self._first + 1)]
        self.entries[:0] = made
        self._sure = 0

    def remove(self, id: str) -> StackEntry | None:
        """Remove a block and return its entry; None for an unknown id."""
        entry = self._by_id.pop(id, None)
        if entry is None:
            return None
        index = self.index(entry)
        del self.entries[index]
        entry.alive = False
        self._sure = min(self._sure, index)
        return entry

    def clear(self) -> None:
        for entry in self.entries:
            entry.alive = False
        self.entries.clear()
        self._by_id.clear()
        self._sure = 0

    def set_rows(self, entry: StackEntry, rows: int) -> None:
        if rows != entry.rows:
            entry.rows = rows
            self.changed(entry)

    def changed(self, entry: StackEntry) -> None:
        """Count the rows again from an entry on, because its height or the kind of its item has changed."""
        self._sure = min(self._sure, self.index(entry))

    def index(self, entry: StackEntry) -> int:
        return bisect_left(self.entries, entry.order, key=lambda other: other.order)

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

    def _make(self, block: Block, rows: int, number: int) -> StackEntry:
        """Create an entry; `number` is its position among all blocks."""
        entry = StackEntry(block, number, rows)
        self._by_id[block.item.id] = entry
        return entry

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
        if not self.following and (anchor := self._find_anchor()) is not None:
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

    def _find_anchor(self) -> tuple[StackEntry, int] | None:
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
        anchor = self._find_anchor()
        if anchor is not None and anchor[0] is entry:
            self._anchor = entry, min(0, anchor[1])

    def scroll(self, rows: int) -> None:
        anchor = self._find_anchor()
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


_INSIDE_WORDS = "_-./~@:+%#&=?"
"""Characters that belong to a word, so that a double click selects paths, addresses and flags."""


def snap(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a range of cells to whole characters, so that no wide character is cut in half."""
    if text.isascii():
        return start, end
    for cluster in clusters(text):
        if cluster.left < start < cluster.right:
            start = cluster.left
        if cluster.left < end < cluster.right:
            end = cluster.right
    return start, end


def cut(text: str, start: int, end: int | None) -> str:
    if start <= 0 and end is None:
        return text
    found = [
        cluster for cluster in clusters(text) if cluster.right > max(0, start) and (end is None or cluster.left < end)
    ]
    return text[found[0].start : found[-1].end] if found else ""


def word_at(text: str, cell: int) -> tuple[int, int] | None:
    row = list(clusters(text))
    at = next((index for index, cluster in enumerate(row) if cluster.left <= cell < cluster.right), None)
    if at is None or text[row[at].start].isspace():
        return None
    if not _in_word(text[row[at].start]):
        return row[at].left, row[at].right
    first = last = at
    while first and _in_word(text[row[first - 1].start]):
        first -= 1
    while last + 1 < len(row) and _in_word(text[row[last + 1].start]):
        last += 1
    return row[first].left, row[last].right


def _in_word(character: str) -> bool:
    return character.isalnum() or character in _INSIDE_WORDS or ord(character) > 0x2FFF


def span(selection: Selection, entry: StackEntry, row: int) -> tuple[int, int | None] | None:
    """Selected cells of a row: start, and end (None: the rest of the row). None if nothing in it is selected."""
    here = place(entry, row)
    start, end = selection
    if (start is not None and here < start.y) or (end is not None and here > end.y):
        return None
    return (
        start.x if start is not None and here == start.y else 0,
        end.x if end is not None and here == end.y else None,
    )


def select(entry: StackEntry, row: int, start: int, end: int) -> Selection:
    where = place(entry, row)
    return Selection(Offset(start, where), Offset(end, where))


def copy_selection(selection: Selection, entries: Stack, lay_out: Callable[[StackEntry], Sequence[BlockLine]]) -> str:
    """Source text of a selection. A completely selected block whose lines were dropped, because it is far from the
    view, contributes its raw source: laying out all such blocks would take seconds."""
    written: list[str] = []
    between = ""
    for entry in entries:
        first, last = span(selection, entry, 0), span(selection, entry, max(0, entry.rows - 1))
        if not _touches(selection, entry) or not entry.rows:
            continue
        if written:
            between = "\n" * (1 + entries.space(entry))
        if entry.lines is None and first == last == (0, None):
            written += [between, entry.block.source.rstrip("\n")]
            between = "\n"
            continue
        for row, line in enumerate(lay_out(entry)):
            cells = span(selection, entry, row)
            if cells is None:
                continue
            start, end = cells
            left = line.indent
            written += [between, cut(line.text, start - left, None if end is None else end - left)]
            between = line.joint
    return "".join(written)


def _touches(selection: Selection, entry: StackEntry) -> bool:
    start, end = selection
    return (start is None or start.y <= place(entry, entry.rows - 1)) and (end is None or end.y >= place(entry, 0))


StyledCells = tuple[int, int | None, Style]
"""Start cell, end cell (None: the end of the row's text) and a style to apply on top."""


def paint(
    strip: Strip, width: int, base: Style, spans: Sequence[StyledCells] = (), margins: tuple[int, int] = (0, 0)
) -> Strip:
    """Paint a row of exactly `width` cells, plus margins on both sides."""
    before, behind = margins
    missing = max(0, width - strip.cell_length)
    if strip.cell_length > width:
        strip = strip.crop(0, width)
    segments = [Segment(" " * before)] if before else []
    segments.extend(segment for segment in strip if segment.text)
    if missing + behind:
        segments.append(Segment(" " * (missing + behind)))
    painted = Strip(Segment.apply_style(segments, base), before + width + behind)
    if spans:
        text_end = cell_len(strip.text.rstrip())
        for start, end, style in spans:
            end = min(width, text_end if end is None else end)
            painted = _over(painted, before + max(0, start), before + end, style)
    return painted


def _over(strip: Strip, start: int, end: int, style: Style) -> Strip:
    width = strip.cell_length
    start, end = snap(strip.text, start, end)
    if end <= start:
        return strip
    segments: list[Segment] = []
    parts: Iterable[tuple[Strip, bool]] = (
        (strip.crop(0, start), False),
        (strip.crop(start, end), True),
        (strip.crop(end, width), False),
    )
    for part, marked in parts:
        segments.extend(Segment.apply_style(part, post_style=style) if marked else part)
    return Strip([segment for segment in segments if segment.text], width)


class Ground(NamedTuple):
    width: int
    margins: tuple[int, int]
    base: Style

    @property
    def blank(self) -> Strip:
        return Strip.blank(self.width + sum(self.margins), self.base)


class Canvas:
    """The visible rows as last painted. Unchanged rows keep the same strip object, which the compositor has cached."""

    def __init__(self) -> None:
        self.rows: list[tuple[StackEntry, int]] = []
        self.strips: list[Strip] = []
        self._ground: Ground | None = None
        self._known: dict[tuple[int, tuple[StyledCells, ...]], tuple[BlockLine, Strip]] = {}
        """Strips of the last frame. The line is stored too, so that its id is not reused."""

    def draw(
        self,
        rows: list[tuple[StackEntry, int]],
        height: int,
        ground: Ground,
        highlights: Callable[[StackEntry, int, BlockLine], tuple[StyledCells, ...]],
    ) -> list[tuple[int, int]]:
        """Paint rows of laid out blocks. Return the changed runs of rows, as first row and count."""
        before = self.strips
        known = self._known if ground == self._ground else {}
        self.rows, self.strips, self._ground, self._known = rows, [], ground, {}
        for entry, row in rows:
            if row < 0 or entry.lines is None:
                self.strips.append(ground.blank)
                continue
            line = entry.lines[row]
            spans = highlights(entry, row, line)
            key = (id(line), spans)
            painted = known.get(key)
            if painted is None:
                painted = line, paint(line.strip, ground.width, ground.base, spans, ground.margins)
            self._known[key] = painted
            self.strips.append(painted[1])
        self.strips.extend([ground.blank] * (height - len(rows)))
        return _differences(before, self.strips)


def _differences(before: list[Strip], now: list[Strip]) -> list[tuple[int, int]]:
    if len(before) != len(now):
        return [(0, len(now))]
    runs: list[tuple[int, int]] = []
    for differs, group in groupby(range(len(now)), lambda row: before[row] is not now[row]):
        if differs:
            rows = list(group)
            runs.append((rows[0], len(rows)))
    return runs
