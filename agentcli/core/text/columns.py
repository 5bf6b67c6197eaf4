"""Text in terminal columns: widths, cutting, and wrapping of lists with a description each.

For text that is printed. Rows that the terminal app paints are measured by `tui/glyphs.py`, as Rich paints them.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

MIN_WRAPPED = 20
"""Columns of wrapped text that a narrower terminal gets too."""
_COLUMNS = re.compile(r" *(?:(?:→|[-•*]|\d+\.) +)?(?:\S+(?: \S+)*? {2,}(?=\S)){0,3}")


def find_hanging_indent(line: str, width: int) -> int:
    """Cells before the last column of a line, where the rows that continue it begin when it is wrapped to `width`.

    The columns before take half of the width at most; otherwise only the line's own indentation is kept, or nothing."""
    found = _COLUMNS.match(line[: width // 2 + 1])
    columns = found.end() if found else 0
    own = len(line) - len(line.lstrip(" "))
    return next((cells for cells in (columns, own) if cells <= width // 2), 0)


def cell_count(text: str) -> int:
    """Number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(map(character_cells, text))


def character_cells(character: str) -> int:
    if character < "\x7f":
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Cut text to `width` columns; cut text ends in an ellipsis."""
    if cell_count(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= character_cells(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip() + "…" if width > 0 else ""


def wrap_sentences(text: str, width: int, indent: str = "") -> str:
    """Wrap to `width` columns. All lines but the first get `indent`, which is as wide as the mark before the first.
    Lines that fit are unchanged; a wrapped line continues below its last column."""
    rows: list[str] = []
    for row in text.split("\n"):
        room = max(MIN_WRAPPED, width - len(indent))
        if cell_count(row) <= room:
            rows.append(row)
        else:
            own = " " * find_hanging_indent(row, room)
            room = max(len(own) + 1, room * len(row) // max(1, cell_count(row)))  # fewer characters if they are wide
            rows += textwrap.wrap(row, room, subsequent_indent=own, break_long_words=False, break_on_hyphens=False)
    return "\n".join(indent + row if row and number else row for number, row in enumerate(rows))
