"""Rows as painted on the screen, and back: highlights over rows, and the source text of selected cells.

The copied text is the source: no gutters, no padding, and wrapped lines are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.glyphs import clusters
from agentcli.tui.transcript.stack import Stack, StackEntry, place

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


def selected_text(selection: Selection, entries: Stack, lay_out: Callable[[StackEntry], Sequence[BlockLine]]) -> str:
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
    start = -1
    for row, (old, new) in enumerate(zip([*before, None], [*now, None], strict=True)):
        if old is not new:
            start = row if start < 0 else start
        elif start >= 0:
            runs.append((start, row - start))
            start = -1
    return runs
