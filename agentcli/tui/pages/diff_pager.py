"""The scrolling part of the diff page: rows of a `DiffLayout`, painted as they come into sight, searched and copied."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.diff_layout import DiffLayout, Look
from agentcli.tui.sheets.frame import MARGIN
from agentcli.tui.sheets.page import Pager
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.copying import cut
from agentcli.tui.transcript.finding import Query, matches_in, parse_query
from agentcli.tui.transcript.painting import Span, paint

_MOST_MATCHES = 10_000


class _Hit(NamedTuple):
    entry: int
    side: int
    number: int
    """Its place among the hits in this column of the entry."""


class DiffPager(Pager):
    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(palette, id)
        self.diff_layout = DiffLayout((), Look(80, palette))
        self._query: Query | None = None
        self._hits: list[_Hit] = []
        self._source: tuple[DiffLayout, str, list[int], list[tuple[int, int]]] | None = None

    def show(self, layout: DiffLayout) -> None:
        """Another layout. What was searched for is found again."""
        self.diff_layout = layout
        self.virtual_size = Size(0, layout.row_count)
        if self._query is not None:
            self._hits = self._found_hits(self._query)
            self.matches = [(hit.entry, hit.side, hit.number) for hit in self._hits]
            self.match = min(self.match, max(0, len(self._hits) - 1))
        self.refresh()

    @property
    def row_count(self) -> int:
        return self.diff_layout.row_count

    # ---------------------------------------------------------------------------------------------------------- search

    def find(self, query: str) -> None:
        self._query = parse_query(query)
        self._hits = self._found_hits(self._query) if self._query is not None else []
        self.matches = [(hit.entry, hit.side, hit.number) for hit in self._hits]
        top = self.diff_layout.entry_at(self.scroll_offset.y) if self.diff_layout.entries else 0
        self.match = next((place for place, hit in enumerate(self._hits) if hit.entry >= top), 0)
        self._mark()

    def _found_hits(self, query: Query) -> list[_Hit]:
        if self._source is None or self._source[0] is not self.diff_layout:
            texts = [
                (place, side, text)
                for place in range(len(self.diff_layout.entries))
                for side, text in enumerate(self.diff_layout.texts(place))
            ]
            starts = [0, *accumulate(len(text) + 1 for _place, _side, text in texts)]
            whole = "\n".join(text for _place, _side, text in texts)
            self._source = self.diff_layout, whole, starts, [(place, side) for place, side, _text in texts]
        _layout, whole, starts, owners = self._source
        hits: list[_Hit] = []
        for match in query.pattern.finditer(whole):
            if "\n" in match.group():
                continue
            place, side = owners[bisect_right(starts, match.start()) - 1]
            last = hits[-1] if hits else None
            again = last is not None and (last.entry, last.side) == (place, side)
            hits.append(_Hit(place, side, last.number + 1 if again and last is not None else 0))
            if len(hits) >= _MOST_MATCHES:
                break
        return hits

    def _mark(self) -> None:
        if self._hits:
            hit = self._hits[self.match]
            row = self.diff_layout.row_of(hit.entry) + self._row_in(hit)
            top = self.scroll_offset.y
            if not top <= row < top + max(1, self.size.height):
                self.scroll_to(y=max(0, row - self.size.height // 3), animate=False)
        self.refresh()

    def _row_in(self, hit: _Hit) -> int:
        sides = self.diff_layout.sides(hit.entry)
        spots = matches_in(sides[hit.side].lines, self._query) if self._query and hit.side < len(sides) else []
        return spots[hit.number][0].row if hit.number < len(spots) else 0

    def _spans(self, entry: int, row: int) -> list[Span]:
        """Marks on a row of an entry."""
        if self._query is None or not self._hits:
            return []
        current = self._hits[self.match]
        found: list[Span] = []
        for number, side in enumerate(self.diff_layout.sides(entry)):
            for place, match in enumerate(matches_in(side.lines, self._query)):
                here = current == _Hit(entry, number, place)
                style = self.palette.match_current if here else self.palette.match
                found += [(side.left + one.start, side.left + one.end, style) for one in match if one.row == row]
        return found

    # -------------------------------------------------------------------------------------------------------- painting

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        place = y + self.scroll_offset.y
        if place >= self.diff_layout.row_count:
            return Strip.blank(width, base)
        entry = self.diff_layout.entry_at(place)
        spans = self._spans(entry, place - self.diff_layout.row_of(entry))
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(place)) is not None:
            spans.append((span[0], None if span[1] < 0 else span[1], self.palette.selection))
        line = self.diff_layout.row(place)
        strip = paint(line.strip, 0, max(1, width - MARGIN), base, spans).apply_offsets(0, place)
        return Strip([*Strip.blank(MARGIN, base), *strip])

    # ------------------------------------------------------------------------------------------------------- selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The code, without numbers and signs; where old and new stand side by side, the new."""
        pieces: list[str] = []
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.diff_layout.row_count - 1
        for row in range(max(0, first), min(last, self.diff_layout.row_count - 1) + 1):
            span = selection.get_span(row)
            if span is not None:
                line = self.diff_layout.row(row)
                start, end = span
                pieces += [cut(line.text, start - line.indent, None if end < 0 else end - line.indent), line.joint]
        return ("".join(pieces[:-1]), "\n") if pieces else None
