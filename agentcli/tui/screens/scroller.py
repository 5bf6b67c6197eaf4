"""Scrolling text of dialogs and pages, painted row by row, with search and copy.

Subclasses provide the rows: `LineScroller` has them all, `Pager` wraps runs, the diff page has its own layout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.glyphs import EVEN, glyphs
from agentcli.tui.screens.text import Runs
from agentcli.tui.textual_internals import repaint_soon
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.copying import cut
from agentcli.tui.transcript.painting import StyledCells, paint
from agentcli.tui.transcript.search import MOST, FoundSpots, Query, matches_in, parse_query

_UNITS: Mapping[str, tuple[int, int, int]] = {
    "up": (-1, 0, 0),
    "down": (1, 0, 0),
    "pageup": (0, -1, 0),
    "pagedown": (0, 1, 0),
    "home": (0, 0, -1),
    "end": (0, 0, 1),
}
"""Scrolling keys: number of rows, pages and whole texts to move by."""


class Scroller(ScrollView, can_focus=False):
    """Scrollable rows. The sheet sets its height and passes it the keys."""

    DEFAULT_CSS = """
    Scroller {
        width: 1fr; height: 0; padding: 0 0 0 1; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    """

    class Scrolled(Message):
        """Other rows are visible now."""

    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(id=id)
        self.palette = palette
        self.shown = 0
        self.sought: Query | None = None
        self.matches: Sequence[Any] = ()
        self.match = 0
        self._row_after_resize: int | None = None

    @property
    def row_count(self) -> int:
        raise NotImplementedError

    def row(self, place: int) -> BlockLine:
        raise NotImplementedError

    def search(self, query: Query) -> Sequence[Any]:
        """Matches from top to bottom."""
        raise NotImplementedError

    def row_of(self, match: Any) -> int:
        raise NotImplementedError

    def is_from(self, match: Any, row: int) -> bool:
        return self.row_of(match) >= row

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        raise NotImplementedError

    def changed(self) -> None:
        """Update after the rows have changed."""
        self.virtual_size = Size(0, self.row_count)
        if self.sought is not None:
            self.matches = self.search(self.sought)
            self.match = min(self.match, max(0, len(self.matches) - 1))
        repaint_soon(self)

    def set_height(self, rows: int) -> None:
        self.shown = rows
        self.styles.height = rows
        repaint_soon(self)

    @property
    def overflows(self) -> bool:
        return self.row_count > self.shown

    @property
    def hidden(self) -> tuple[int, int]:
        top = min(round(self.scroll_y), max(0, self.row_count - self.shown))
        return top, max(0, self.row_count - self.shown - top)

    def press(self, key: str) -> bool:
        rows, pages, texts = _UNITS.get(key, (0, 0, 0))
        self.move(rows + pages * max(1, self.shown - 1) + texts * self.row_count)
        return key in _UNITS

    def move(self, rows: int) -> None:
        if rows:
            self.move_to(self.hidden[0] + rows)

    def move_to(self, row: int) -> None:
        y = max(0, min(row, self.row_count - self.shown))
        # Until it is laid out with fewer rows, Textual scrolls only as far as the old height allows.
        self._row_after_resize = y if self.size.height > self.shown else None
        self.scroll_to(y=y, animate=False, immediate=True)
        self.post_message(self.Scrolled())

    def reveal(self, first: int, last: int) -> None:
        """Scroll as little as needed to show these rows; the first takes precedence."""
        top = self.hidden[0]
        if first < top or last >= top + self.shown:
            self.move_to(first if first < top else min(first, last - self.shown + 1))

    def on_resize(self) -> None:
        if self._row_after_resize is not None and self.size.height <= self.shown:
            row, self._row_after_resize = self._row_after_resize, None
            self.scroll_to(y=row, animate=False, immediate=True)
        # Textual may have scrolled to leave no empty room at the end.
        self.scroll_target_y = self.scroll_y
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    def find(self, text: str) -> None:
        self.sought = parse_query(text)
        self.matches = self.search(self.sought) if self.sought is not None else ()
        top = self.hidden[0]
        self.match = next((place for place, match in enumerate(self.matches) if self.is_from(match, top)), 0)
        self.step(0)

    def step(self, steps: int) -> None:
        if self.matches:
            self.match = (self.match + steps) % len(self.matches)
            row = self.row_of(self.matches[self.match])
            if not 0 <= row - self.hidden[0] < max(1, self.shown):
                self.move_to(row - self.shown // 3)
        repaint_soon(self)

    @property
    def found(self) -> str:
        if self.sought is None:
            return ""
        return f"{self.match + 1:,} of {len(self.matches):,}" if self.matches else "not found"

    def render_line(self, y: int) -> Strip:
        place, width, base = y + self.scroll_offset.y, self.scrollable_content_region.width, self.rich_style
        if place >= self.row_count:
            return Strip.blank(width, base)
        palette = self.palette
        spans: list[StyledCells] = [
            (start, end, palette.match_current if current else palette.match)
            for start, end, current in (self.spots(place) if self.matches else ())
        ]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(place)) is not None:
            spans.append((span[0], None if span[1] < 0 else span[1], palette.selection))
        return paint(self.row(place).strip, width, base, spans).apply_offsets(0, place)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Source text of a selection: without margins and without the line breaks of wrapping."""
        pieces: list[str] = []
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.row_count - 1
        for place in range(max(0, first), min(last, self.row_count - 1) + 1):
            span = selection.get_span(place)
            if span is not None:
                line, (start, end) = self.row(place), span
                pieces += [cut(line.text, start - line.indent, None if end < 0 else end - line.indent), line.joint]
        return ("".join(pieces[:-1]), "\n") if pieces else None

    def selection_updated(self, selection: Selection | None) -> None:
        repaint_soon(self)


class LineScroller(Scroller):
    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(palette, id)
        self._lines: Sequence[BlockLine] = ()

    def show(self, lines: Sequence[BlockLine], rows: int) -> None:
        is_new = lines is not self._lines
        self._lines = lines
        self.set_height(rows)
        if is_new:
            self.changed()

    @property
    def row_count(self) -> int:
        return len(self._lines)

    def row(self, place: int) -> BlockLine:
        return self._lines[place]

    def search(self, query: Query) -> list[FoundSpots]:
        return matches_in(self._lines, query)

    def row_of(self, match: FoundSpots) -> int:
        return match[0].row

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        for number, match in enumerate(self.matches):
            yield from ((spot.start, spot.end, number == self.match) for spot in match if spot.row == place)


class Pager(Scroller):
    """Styled lines, wrapped. Rows are created when painted, so there may be very many."""

    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(palette, id)
        self._lines: Sequence[Runs] = ()
        self._texts: Sequence[str] = ()
        self._rows: list[tuple[int, int, int]] = []
        self._width = 0

    def set_lines(self, lines: Sequence[Runs], width: int) -> None:
        """Show lines, which must be safe text, wrapped at this width."""
        if lines is self._lines and width == self._width:
            return
        self._lines, self._width = lines, width
        self._texts = ["".join([text for text, _style in line]) for line in lines]
        self._rows = [(number, *ends) for number, text in enumerate(self._texts) for ends in rows_of(text, width)]
        self.changed()

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def row(self, place: int) -> BlockLine:
        number, start, end = self._rows[place]
        text = self._texts[number]
        joint = "\n" if end >= len(text) else text[end : self._rows[place + 1][1]]
        return BlockLine(
            Strip([Segment(part, style) for part, style in sliced(self._lines[number], start, end)]),
            text[start:end],
            joint=joint,
        )

    def search(self, query: Query) -> list[tuple[int, int, int]]:
        return TextIndex(self._texts).search(query)

    def row_of(self, match: tuple[int, int, int]) -> int:
        number, start, _end = match
        return bisect_right(self._rows, (number, start, len(self._texts[number]) + 1)) - 1

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        number, first, last = self._rows[place]
        text = self._texts[number]
        at = bisect_right(self.matches, (number,))
        while at < len(self.matches) and self.matches[at][0] == number:
            _number, start, end = self.matches[at]
            if end > first and start < last:
                left = cell_len(text[first : max(first, start)])
                yield left, left + cell_len(text[max(first, start) : min(end, last)]), at == self.match
            at += 1


class TextIndex:
    def __init__(self, texts: Sequence[str]) -> None:
        self._whole = "\n".join(texts)
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]

    def search(self, query: Query) -> list[tuple[int, int, int]]:
        """Matches as (index of the text, start, end). No match spans two texts."""
        found: list[tuple[int, int, int]] = []
        for match in query.pattern.finditer(self._whole):
            if "\n" in match.group():
                continue
            number = bisect_right(self._starts, match.start()) - 1
            found.append((number, match.start() - self._starts[number], match.end() - self._starts[number]))
            if len(found) >= MOST:
                break
        return found


def rows_of(text: str, width: int) -> Iterable[tuple[int, int]]:
    """Start and end of each row of a line, wrapped at blanks; a word wider than a row is cut."""
    width = max(1, width)
    if len(text) <= width and EVEN(text) is None:
        return ((0, len(text)),)
    return _wrapped_rows(text, width)


def _wrapped_rows(text: str, width: int) -> Iterable[tuple[int, int]]:
    ends, cells = _cells(text)
    start, first = 0, 0
    while True:
        # The last glyph that ends within the width; at least one glyph, however wide it is.
        last = max(first, bisect_right(cells, (cells[first - 1] if first else 0) + width) - 1) if cells else 0
        if last >= len(ends) - 1:
            yield start, len(text)
            return
        end = ends[last]
        blank = text.rfind(" ", start + 1, end + 1)
        if blank > start:
            yield start, blank
            start = blank + 1
        else:
            yield start, end
            start = end
        first = bisect_right(ends, start)


def _cells(text: str) -> tuple[Sequence[int], Sequence[int]]:
    """End of each glyph, in characters and in cells."""
    if EVEN(text) is None:
        return range(1, len(text) + 1), range(1, len(text) + 1)
    sizes = [(len(source), size) for source, _shown, size in glyphs(text)]
    return list(accumulate(length for length, _size in sizes)), list(accumulate(size for _length, size in sizes))


def sliced(runs: Runs, start: int, end: int) -> Runs:
    found: Runs = []
    place = 0
    for text, style in runs:
        if place >= end:
            break
        if place + len(text) > start:
            found.append((text[max(0, start - place) : end - place], style))
        place += len(text)
    return found
