"""Align text in columns. Counts terminal cells, not characters, and cuts long text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

WIDTH = 76
"""Default width in columns: the usual 80, less the left margin and the scroll bar."""
GAP = 2


def cells(text: str) -> int:
    """Number of terminal columns that the text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Cut text to `width` columns; cut text ends in an ellipsis."""
    if cells(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= _cells(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip() + "…" if width > 0 else ""


def table(rows: Sequence[Sequence[str]], *, last_is_text: bool = False, width: int = 0) -> str:
    """Aligned columns: the first left, others right, a last one of text left and cut at `width` (0: not cut)."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (size - cells(text)) for text, size in zip(row, widths, strict=True)]
        columns = [row[0] + blanks[0], *(blank + text for blank, text in zip(blanks[1:], row[1:], strict=True))]
        if last_is_text:
            room = width - sum(widths[:-1]) - GAP * (len(widths) - 1)
            columns[-1] = cut(row[-1], max(1, room)) if width else row[-1]
        lines.append((" " * GAP).join(columns).rstrip())
    return "\n".join(lines)


def width_of(text: str) -> int:
    """Columns of the widest line."""
    return max(map(cells, text.splitlines()), default=0)
