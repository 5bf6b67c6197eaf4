"""Find rows that moved up or down together, which the terminal can scroll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

ROW_COST = 10
"""Bytes needed to write a row, besides its text."""
SCROLL_COST = 30
"""Bytes of the sequences that scroll a part of the screen."""


class RowMove(NamedTuple):
    first: int
    last: int
    """Rows of the scrolled part of the screen."""
    rows: int
    """Number of rows that its content moves up; negative: down."""


def find_move(before: Sequence[str | None], after: Sequence[str | None]) -> RowMove | None:
    """Find the move that saves most bytes, given the texts of all rows (None if unknown)."""
    at: dict[str, list[int]] = {}
    for y, text in enumerate(before):
        if text:
            at.setdefault(text, []).append(y)
    votes: Counter[int] = Counter()
    for y, text in enumerate(after):
        if text and text != before[y]:
            for old in at.get(text, ()):
                votes[old - y] += len(text)
    if not votes:
        return None
    rows = votes.most_common(1)[0][0]
    return _best_part(before, after, rows)


def _best_part(before: Sequence[str | None], after: Sequence[str | None], rows: int) -> RowMove | None:
    """Find the range of rows that saves most when moved by `rows`."""
    height = len(after)
    best = gain = first = start = last = 0
    for y in range(height):
        source = y + rows
        saved = _cost(before[y], after[y]) - _cost(before[source] if 0 <= source < height else None, after[y])
        if gain <= 0:
            gain, start = 0, y
            if saved <= 0:
                continue
        gain += saved
        if gain > best:
            best, first, last = gain, start, y
    if not best:
        return None
    lost = range(last + 1, last + rows + 1) if rows > 0 else range(first + rows, first)
    best -= sum(_cost(None, after[y]) - _cost(before[y], after[y]) for y in lost)
    if best < SCROLL_COST:
        return None
    return RowMove(first, last + rows, rows) if rows > 0 else RowMove(first + rows, last, rows)


def _cost(before: str | None, after: str | None) -> int:
    """Approximate number of bytes that turn one row into another. A row that is still growing keeps its beginning."""
    if after is None or before == after:
        return 0
    if not before:
        return len(after) + ROW_COST
    if after.startswith(before):
        return len(after) - len(before) + ROW_COST
    return ROW_COST if before.startswith(after) else len(after) + ROW_COST
