"""The scrolling part of the diff page: rows of a `DiffLayout`, painted as they come into sight, searched and copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.diff_layout import DiffLayout, Look
from agentcli.tui.sheets.scroller import Scroller, TextIndex
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.finding import Query, matches_in


class _Hit(NamedTuple):
    entry: int
    side: int
    number: int
    """Its place among the hits in this column of the entry."""


class DiffPager(Scroller):
    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(palette, id)
        self.diff_layout = DiffLayout((), Look(80, palette))
        self._index: tuple[DiffLayout, TextIndex, list[tuple[int, int]]] | None = None

    def show(self, layout: DiffLayout) -> None:
        """Show another layout. What was searched for is found again."""
        self.diff_layout = layout
        self.changed()

    @property
    def row_count(self) -> int:
        return self.diff_layout.row_count

    def row(self, place: int) -> Line:
        return self.diff_layout.row(place)

    # ---------------------------------------------------------------------------------------------------------- search

    def search(self, query: Query) -> Sequence[_Hit]:
        layout = self.diff_layout
        if self._index is None or self._index[0] is not layout:
            texts = [
                (place, side, text)
                for place in range(len(layout.entries))
                for side, text in enumerate(layout.texts(place))
            ]
            columns = [(place, side) for place, side, _text in texts]
            self._index = layout, TextIndex([text for _place, _side, text in texts]), columns
        _layout, index, columns = self._index
        hits: list[_Hit] = []
        for text, _start, _end in index.search(query):
            again = bool(hits) and hits[-1][:2] == columns[text]
            hits.append(_Hit(*columns[text], hits[-1].number + 1 if again else 0))
        return hits

    def is_from(self, match: _Hit, row: int) -> bool:
        return match.entry >= (self.diff_layout.entry_at(row) if self.diff_layout.entries else 0)

    def row_of(self, match: _Hit) -> int:
        sides = self.diff_layout.sides(match.entry)
        spots = matches_in(sides[match.side].lines, self.sought) if self.sought and match.side < len(sides) else []
        return self.diff_layout.row_of(match.entry) + (spots[match.number][0].row if match.number < len(spots) else 0)

    def spots(self, place: int) -> Iterable[tuple[int, int, bool]]:
        assert self.sought is not None
        layout, current = self.diff_layout, self.matches[self.match]
        entry = layout.entry_at(place)
        row = place - layout.row_of(entry)
        for number, side in enumerate(layout.sides(entry)):
            for order, match in enumerate(matches_in(side.lines, self.sought)):
                here = current == _Hit(entry, number, order)
                yield from ((side.left + one.start, side.left + one.end, here) for one in match if one.row == row)
