"""Wrapping of lines into rows, and conversion between columns and cells.

Textual measures tabs from the start of a row in one place and from the start of the line in another, counts the parts
of a joined emoji separately, and splits a line with a `Text` several times per key. Here columns, cells and rows agree.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right

from rich.cells import cell_len, split_graphemes
from textual.document._document import Location
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Offset

from agentcli.tui.prompt.graphemes import boundary_near

_EMOJI_STYLE = "\ufe0f"
_WORD = re.compile(r"\S+\s*|\s+")


class WrappedPrompt(WrappedDocument):
    def wrap(self, width: int, tab_width: int | None = None) -> None:
        super().wrap(width, tab_width)
        self._fit_characters()

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        if not self._has_grown_within_row(start, old_end, new_end):
            super().wrap_range(start, old_end, new_end)
            self._fit_characters()

    def _has_grown_within_row(self, start: Location, old_end: Location, new_end: Location) -> bool:
        """Whether a line only got longer at its end and its last row has room, so that no row moves."""
        line_index, column = new_end
        if start != old_end or start[0] != line_index:
            return False
        line, offsets = self.document[line_index], self._wrap_offsets[line_index]
        room = self._width - (column - offsets[-1] if offsets else column)
        return column == len(line) and room > 0 and line.isascii() and "\t" not in line

    def _fit_characters(self) -> None:
        """Correct Textual's wrapping of long words by grapheme widths."""
        styled = [number for number, line in enumerate(self.document.lines) if self._width and _EMOJI_STYLE in line]
        before = [len(self._wrap_offsets[number]) for number in styled]
        for number in styled:
            self._wrap_offsets[number] = self._within_width(number)
        if before != [len(self._wrap_offsets[number]) for number in styled]:
            rows = [range(len(offsets) + 1) for offsets in self._wrap_offsets]
            self._offset_to_line_info = [(number, section) for number, of in enumerate(rows) for section in of]
            firsts = itertools.accumulate((len(of) for of in rows), initial=0)
            self._line_index_to_offsets = [[first + row for row in of] for first, of in zip(firsts, rows, strict=False)]
        self._keep_characters_whole()

    def _within_width(self, line_index: int) -> list[int]:
        """Row starts of a line, as Textual computes them but with the width of whole grapheme clusters: an emoji
        variation selector widens the character before it."""
        line, offsets = self.document[line_index], []
        tabs, x = iter(self._tabs(line_index, line, 0, len(line))), 0
        for word in _WORD.finditer(line):
            glyphs = [
                (word.start() + start, next(tabs, 1) if line[word.start() + start] == "\t" else cells)
                for start, _stop, cells in split_graphemes(word.group())[0]
            ]
            if x and x + sum(cells for _start, cells in glyphs) > self._width:
                offsets.append(word.start())
                x = 0
            for start, cells in glyphs:
                if x and x + cells > self._width:
                    offsets.append(start)
                    x = 0
                x += cells
        return offsets

    def _keep_characters_whole(self) -> None:
        """Move row starts so that no row ends inside a cluster. The rest is narrower than measured, so the next row has
        room for it."""
        for line_index, offsets in enumerate(self._wrap_offsets):
            if offsets and not (line := self.document[line_index]).isascii():
                before = 0
                for index, offset in enumerate(offsets):
                    whole = boundary_near(line, offset)
                    before = offsets[index] = whole if whole > before else offset

    def get_sections(self, line_index: int) -> list[str]:
        line = self.document[line_index]
        places = [0, *self._wrap_offsets[line_index], len(line)]
        return [line[start:end] for start, end in itertools.pairwise(places)]

    def location_to_offset(self, location: Location) -> Offset:
        line_index, column = location
        line_index = min(max(line_index, 0), len(self._line_index_to_offsets) - 1)
        offsets = self.get_offsets(line_index)
        section = bisect_right(offsets, column)
        begin = offsets[section - 1] if section else 0
        line = self.document[line_index]
        cells = cell_len(line[begin:column].replace("\t", ""))
        tabs = sum(self._tabs(line_index, line, begin, column))
        return Offset(cells + tabs, self._line_index_to_offsets[line_index][section])

    def get_target_document_column(self, line_index: int, x_offset: int, y_offset: int) -> int:
        line = self.document[line_index]
        offsets = self.get_offsets(line_index)
        section = y_offset % (len(offsets) + 1)
        begin = offsets[section - 1] if section else 0
        end = offsets[section] if section < len(offsets) else len(line)
        tabs = iter(self._tabs(line_index, line, begin, end))
        x = 0
        last = begin
        for start, _stop, width in split_graphemes(line[begin:end])[0]:
            x += next(tabs, 1) if line[begin + start] == "\t" else width
            if x > x_offset:
                return begin + start
            last = begin + start
        # The position after the last character of a row belongs to the next row.
        return end if section == len(offsets) else last

    def _tabs(self, line_index: int, line: str, begin: int, end: int) -> list[int]:
        if "\t" not in line:
            return []
        first = line.count("\t", 0, begin)
        return self.get_tab_widths(line_index)[first : first + line.count("\t", begin, end)]
