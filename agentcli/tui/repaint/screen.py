"""Current and wanted content of the terminal, and the output that turns one into the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, MutableSequence, Sequence
from typing import Any, NamedTuple

from rich.color import ColorSystem
from textual.strip import Strip

from agentcli.tui.repaint.cells import CellMaker, Pens
from agentcli.tui.repaint.changes import FrameWriter, Row, unknown_row

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


MIN_MOVED = 3
"""Number of changed rows from which on a search for moved rows pays off."""
MAX_MOVES = 3
_MARGIN = 2
"""Columns at the right edge that do not scroll with the text: the scrollbar."""


class ScreenMemory:
    """Two images of the screen: as the app wants it, and as the terminal shows it."""

    def __init__(self, system: ColorSystem = ColorSystem.TRUECOLOR, *, erases_in_colour: bool = True) -> None:
        self._pens = Pens(system)
        self._maker = CellMaker(self._pens)
        self._erases_in_colour = erases_in_colour
        self.size = (0, 0)
        """Columns and rows."""
        self._wanted: list[Row] = []
        self._shown: list[Row] = []
        self._placed: set[int] = set()
        """Rows that may differ."""
        self._cursor: tuple[int, int] | None = None
        self._texts: list[str | None] = []
        """Texts of the shown rows, for finding rows that moved."""

    def resize(self, width: int, height: int) -> None:
        """Set the size. After a change nothing is known about the terminal's content or the wanted content."""
        if self.size != (width, height):
            self.size = (width, height)
            self._wanted = [unknown_row(width) for _row in range(height)]
            self.forget()

    def forget(self) -> None:
        """Forget the screen after other output to the terminal, so that everything is written again."""
        width, height = self.size
        self._shown = [unknown_row(width) for _row in range(height)]
        self._texts = [None] * height
        self._placed = set(range(height))
        self._cursor = None

    def place(self, strips: Iterable[tuple[int, int, Strip]]) -> None:
        """Put strips, each with column and row, into the wanted image."""
        width, height = self.size
        for x, y, strip in strips:
            if not (0 <= y < height and 0 <= x < width):
                continue
            characters, looks = self._maker.cells(strip)
            row, row_looks = self._wanted[y]
            stop = x + len(characters)
            if stop > width:
                stop = width
                characters, looks = _cut(characters, width - x), looks[: width - x]
            if row[x] == "":
                _blank_back(row, x)
            row[x:stop] = characters
            row_looks[x:stop] = looks
            while stop < width and row[stop] == "":
                row[stop] = " "
                stop += 1
            self._placed.add(y)

    def changes(self, cursor: tuple[int, int]) -> str:
        """Return the output that updates the terminal to the wanted image; "" if they are equal."""
        wanted, shown = self._wanted, self._shown
        changed = [y for y in sorted(self._placed) if wanted[y] != shown[y]]
        self._placed.clear()
        if not changed and cursor == self._cursor:
            return ""
        writer = FrameWriter(self._pens, self.size, erases_in_colour=self._erases_in_colour)
        if self._cursor is None:
            writer.reset_margins()
        self._cursor = cursor
        texts = self._texts[:]
        for y in changed:
            texts[y] = _text(wanted[y])
        if len(changed) >= MIN_MOVED and self._scroll(writer, texts):
            changed = [y for y in range(len(wanted)) if wanted[y] != shown[y]]
        self._texts = texts
        for y in changed:
            writer.write_row(y, shown[y], wanted[y])
            characters, looks = wanted[y]
            shown[y] = characters[:], looks[:]
        return writer.finish(cursor)

    def _scroll(self, writer: FrameWriter, after: list[str | None]) -> bool:
        """Scroll rows that moved, found by their texts in the new frame. Return whether there were any."""
        shown, before = self._shown, self._texts
        for count in range(MAX_MOVES):
            move = find_move(before, after)
            if move is None:
                return count > 0
            first, last, rows = move
            writer.scroll(first, last, rows)
            new = [unknown_row(self.size[0]) for _row in range(abs(rows))]
            for texts, unknown in ((before, [None] * abs(rows)), (shown, new)):
                part = texts[first : last + 1]
                texts[first : last + 1] = [*part[rows:], *unknown] if rows > 0 else [*unknown, *part[:rows]]
        return True


def _cut(characters: list[str], width: int) -> list[str]:
    """The first `width` cells; half of a wide character becomes a space."""
    kept = characters[:width]
    if characters[width] == "":
        _blank_back(kept, width)
    return kept


def _blank_back(characters: MutableSequence[Any], stop: int) -> None:
    """Replace the wide character that ends before a column by spaces, since its other half was overwritten."""
    at = stop - 1
    while at > 0 and characters[at] == "":
        characters[at] = " "
        at -= 1
    characters[at] = " "


def _text(row: Row) -> str | None:
    characters = row[0][:-_MARGIN]
    return None if None in characters else "".join(characters).rstrip()  # type: ignore[arg-type]
