"""Scrolling rows of dialogs and pages, painted one by one, with search and copy. The diff page has its own rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.copying import cut
from agentcli.tui.transcript.painting import StyledCells, paint
from agentcli.tui.transcript.search import Query, matches_in, parse_query

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
        self._lines: Sequence[BlockLine] = ()
        self._spots: dict[int, list[tuple[int, int, int]]] = {}
        """Cells of matches by row: start, end and number of the match."""
        self._row_after_resize: int | None = None

    # ------------------------------------------------------------------------------------------------------- the rows

    @property
    def row_count(self) -> int:
        return len(self._lines)

    def row(self, place: int) -> BlockLine:
        return self._lines[place]

    def search(self, query: Query) -> Sequence[Any]:
        """Matches from top to bottom."""
        found = matches_in(self._lines, query)
        self._spots = {}
        for number, match in enumerate(found):
            for spot in match:
                self._spots.setdefault(spot.row, []).append((spot.start, spot.end, number))
        return found

    def row_of(self, match: Any) -> int:
        row: int = match[0].row
        return row

    def is_from(self, match: Any, row: int) -> bool:
        return self.row_of(match) >= row

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        return ((start, end, number == self.match) for start, end, number in self._spots.get(place, ()))

    def show(self, lines: Sequence[BlockLine], rows: int) -> None:
        is_new = lines is not self._lines
        self._lines = lines
        self.set_height(rows)
        if is_new:
            self.changed()

    def changed(self) -> None:
        """Update after the rows have changed."""
        self.virtual_size = Size(0, self.row_count)
        if self.sought is not None:
            self.matches = self.search(self.sought)
            self.match = min(self.match, max(0, len(self.matches) - 1))
        self.refresh()

    def set_height(self, rows: int) -> None:
        self.shown = rows
        self.styles.height = rows
        self.refresh()

    # ------------------------------------------------------------------------------------------------------ scrolling

    @property
    def overflows(self) -> bool:
        return self.row_count > self.shown

    @property
    def hidden(self) -> tuple[int, int]:
        top = min(round(self.scroll_y), max(0, self.row_count - self.shown))
        return top, max(0, self.row_count - self.shown - top)

    def press(self, key: str) -> bool:
        rows, pages, texts = _UNITS.get(key, (0, 0, 0))
        if steps := rows + pages * max(1, self.shown - 1) + texts * self.row_count:
            self.move_to(self.hidden[0] + steps)
        return key in _UNITS

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

    # --------------------------------------------------------------------------------------------------------- search

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
        self.refresh()

    @property
    def found(self) -> str:
        if self.sought is None:
            return ""
        return f"{self.match + 1:,} of {len(self.matches):,}" if self.matches else "not found"

    # ----------------------------------------------------------------------------------------------- painting, copying

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
        self.refresh()
