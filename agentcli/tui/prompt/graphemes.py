"""Boundaries of grapheme clusters, the user's "characters": a letter with its marks, a flag, a joined emoji."""

from __future__ import annotations

from rich.cells import split_graphemes

_WINDOW = 64
"""Code points examined; longer clusters exist only to break terminals."""


def boundary_after(text: str, column: int) -> int:
    ahead = text[column : column + _WINDOW]
    if len(ahead) < 2 or ahead[:2].isascii():
        return min(column + 1, len(text))
    return column + _starts(ahead)[1]


def boundary_before(text: str, column: int) -> int:
    behind = text[max(0, column - _WINDOW) : column]
    if len(behind) < 2 or behind[-1:].isascii():
        return max(0, column - 1)
    return column - len(behind) + _starts(behind)[-2]


def boundary_near(text: str, column: int) -> int:
    """The column itself, or the start of the grapheme cluster that contains it."""
    if column <= 0 or column >= len(text) or text[column - 1 : column + 1].isascii():
        return column
    start = max(0, column - _WINDOW)
    return max((start + at for at in _starts(text[start : column + _WINDOW]) if start + at <= column), default=column)


def _starts(text: str) -> list[int]:
    """Start of each cluster, and the end of the text. Skin tones join the previous cluster; two regional indicators
    form one flag."""
    starts: list[int] = []
    letters = 0
    for start, _end, _width in split_graphemes(text)[0]:
        first = text[start]
        letters = letters + 1 if "\U0001f1e6" <= first <= "\U0001f1ff" else 0
        joined = "\U0001f3fb" <= first <= "\U0001f3ff" or (letters and letters % 2 == 0)
        if not (joined and starts):
            starts.append(start)
    return [*starts, len(text)]
