"""Output of one frame: cursor moves, style changes, and the cells that differ."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.tui.repaint.cells import Pen, Pens, is_doubtful, narrowed

Row = tuple[list[str | None], list[Pen | None]]
"""Characters and pens of all columns; None where unknown."""

SHORT_GAP = 4
"""Maximum number of unchanged cells that are cheaper to rewrite than to move over."""
MIN_ERASED = 12
"""Number of spaces from which on erasing the cells and moving over them takes fewer bytes."""
MIN_ERASED_LAST = 6
"""The same if nothing is written after the spaces, so that no move is needed."""
MIN_ERASED_TO_END = 4
"""The same for erasing everything up to the end of the row."""

EDGE = 2
"""Columns at the right edge in which a character that turns out wider than expected does not fit."""


def unknown_row(width: int) -> Row:
    return [None] * width, [None] * width


class FrameWriter:
    """Collects the bytes of one frame."""

    def __init__(self, pens: Pens, size: tuple[int, int], *, erases_in_colour: bool) -> None:
        """`erases_in_colour`: erased cells get the current background, as in all terminals except GNU screen."""
        self.pieces: list[str] = []
        self._pens = pens
        self._width, self._height = size
        self._erases_in_colour = erases_in_colour
        self._pen: Pen | None = None
        self._at: tuple[int, int] | None = None
        """Cursor column and row; None if uncertain."""
        self._edges: list[tuple[int, Row]] = []
        """Rows whose last cell (the scrollbar) is written at the end, so that its styles are set only once."""

    # ------------------------------------------------------------------------------------------------ whole frames

    def scroll(self, first: int, last: int, rows: int) -> None:
        """Move the rows from `first` to `last` up by `rows`, or down if negative. The content of the new rows depends
        on the terminal."""
        # Delete/insert line also works where scrolling does not, such as the Linux console. All of these move the
        # cursor.
        command = f"\x1b[{rows}M" if rows > 0 else f"\x1b[{-rows}L"
        self.pieces.append(f"\x1b[{first + 1};{last + 1}r\x1b[{first + 1}H{command}\x1b[r")
        self._at = None

    def reset_margins(self) -> None:
        """Reset the scrolling region to the whole screen; another program may have changed it."""
        self.pieces.append("\x1b[r")
        self._at = None

    def write_row(self, y: int, before: Row, after: Row) -> None:
        """Write the cells of a row that differ."""
        if is_doubtful(after[0]) or is_doubtful(before[0]):
            self._write_doubtful(y, after)
            return
        (characters, looks), edge = after, self._width - 1
        has_edge = edge > 0 and characters[edge] not in (None, "") and looks[edge] is not looks[edge - 1]
        is_due = has_edge and (before[0][edge] != characters[edge] or before[1][edge] is not looks[edge])
        if is_due:
            self._edges.append((y, after))
        end, limit = 0, edge if has_edge else self._width
        for start, stop in _runs(before, after):
            self.write_cells(y, max(start, end), min(stop, limit), after, limit, ends_free=is_due or not has_edge)
            end = stop

    def finish(self, cursor: tuple[int, int]) -> str:
        """Return the whole output, which ends with the cursor at the given column and row and all styles reset."""
        for y, row in self._edges:
            self.write_cells(y, self._width - 1, self._width, row)
        if self._pen is not None and self._pen is not self._pens.plain:
            self.pieces.append(("\x1b]8;;\x1b\\" if self._pen.link else "") + "\x1b[m")
        self._move(*cursor)
        return "".join(self.pieces)

    # ------------------------------------------------------------------------------------------------------- cells

    def _write_doubtful(self, y: int, row: Row) -> None:
        """Write the whole row, with a cursor move after each character whose width is uncertain. The row is erased
        first, since the old characters may have covered other cells than expected."""
        row = characters, looks = self._within_edge(row[0]), row[1]
        if None not in characters:
            self._at = None
            self._move(0, y)
            erased = next((look for look in reversed(looks) if look and look.is_erased), self._pens.plain)
            self._look(erased, is_space=True)
            self.pieces.append("\x1b[K")
        start = 0
        for x, character in enumerate(characters):
            if character and is_doubtful((character,)):
                self._write_known(y, start, x, row)
                start = x + 1
                while start < self._width and characters[start] == "":
                    start += 1
                self.write_cells(y, x, start, row)
                self._at = None
        self._write_known(y, start, self._width, row)

    def _within_edge(self, characters: list[str | None]) -> list[str | None]:
        """Replace characters of uncertain width at the right edge by one-cell versions: a terminal that shows them
        wider has no room there and would overwrite the cell before."""
        kept = characters[:]
        for x in range(max(0, self._width - EDGE), self._width):
            is_single = x + 1 == self._width or characters[x + 1] != ""
            if (character := characters[x]) and is_single and is_doubtful((character,)):
                kept[x] = narrowed(character)
        return kept

    def _write_known(self, y: int, start: int, stop: int, row: Row) -> None:
        """Write the cells that are not unknown (None)."""
        for x in range(start, stop):
            if row[0][x] is None:
                if start < x:
                    self.write_cells(y, start, x, row)
                start = x + 1
        if start < stop:
            self.write_cells(y, start, stop, row)

    def write_cells(
        self, y: int, start: int, stop: int, row: Row, limit: int | None = None, *, ends_free: bool = True
    ) -> None:
        """Write known cells, none of which is half of a wide character. `limit`: end of the row without its last cell.
        `ends_free`: everything after `limit` may be erased."""
        characters, looks = row
        limit = self._width if limit is None else limit
        x = start
        while x < stop:
            pen = looks[x]
            assert pen is not None
            space = self._pens.space(pen)
            end = x + 1
            if characters[x] == " " and pen is space:
                while end < limit and characters[end] == " " and looks[end] is pen:
                    end += 1
                if self._erase(x, y, min(end, stop), pen, to_end=end == limit and ends_free, is_last=end >= stop):
                    x = end
                    continue
                end = min(end, stop)
            else:
                while end < stop and (looks[end] is pen or (looks[end] is space and characters[end] == " ")):
                    if characters[end] == " " and end + 1 < stop and characters[end + 1] == " ":
                        break
                    end += 1
            self._move(x, y)
            # The pen of spaces may also be that of plain text, which shows colour and weight.
            self._look(pen, is_space=pen is space and characters[x] == " ")
            self.pieces.append("".join(characters[x:end]))  # type: ignore[arg-type]
            self._at = (end, y) if end < self._width else None
            x = end

    def _erase(self, x: int, y: int, stop: int, pen: Pen, *, to_end: bool, is_last: bool) -> bool:
        """Erase cells if that is shorter than writing spaces. `to_end`: all cells after them may be erased too.
        `is_last`: nothing is written after them. Does not move the cursor past them."""
        least = MIN_ERASED_TO_END if to_end else MIN_ERASED_LAST if is_last else MIN_ERASED
        if stop - x < least or not pen.is_erased or (pen.background and not self._erases_in_colour):
            return False
        self._move(x, y)
        self._look(pen, is_space=True)
        self.pieces.append("\x1b[K" if to_end else f"\x1b[{stop - x}X")
        return True

    def _look(self, pen: Pen, *, is_space: bool) -> None:
        now = self._pen
        if now is None:
            self.pieces.append(self._pens.start(pen))
        elif now is pen or (is_space and self._pens.space(now) is pen):
            return
        else:
            self.pieces.append(self._pens.switch(now, pen))
        self._pen = pen

    def _move(self, x: int, y: int) -> None:
        if self._at == (x, y):
            return
        if self._at is None or self._at[1] > y or self._at[1] + 1 < y or (self._at[1] < y and x):
            self.pieces.append(f"\x1b[{y + 1};{x + 1}H" if x or not y else f"\x1b[{y + 1}H")
        elif self._at[1] < y:
            self.pieces.append("\r\n")
        elif self._at[0] < x:
            self.pieces.append(f"\x1b[{x - self._at[0]}C")
        else:
            self.pieces.append(f"\x1b[{x + 1}G")
        self._at = (x, y)


def _runs(before: Row, after: Row) -> Iterator[tuple[int, int]]:
    """Column ranges of cells that differ. Short gaps between them are written again."""
    characters, looks = after
    width = len(characters)
    if before[0].count(None) == width and None not in characters:
        yield 0, width
        return
    start = stop = -1
    for x, (old, new, old_look, look) in enumerate(zip(before[0], characters, before[1], looks, strict=True)):
        if (old == new and old_look is look) or new is None:
            continue
        if x == stop or (start >= 0 and x - stop <= SHORT_GAP and _is_plain_gap(stop, x, after)):
            stop = x + 1
            continue
        if start >= 0:
            yield _whole_glyphs(start, stop, characters)
        start, stop = x, x + 1
    if start >= 0:
        yield _whole_glyphs(start, stop, characters)


def _is_plain_gap(start: int, stop: int, row: Row) -> bool:
    """Whether cells can be written with the pen of the cell before them."""
    characters, looks = row
    look = looks[start - 1]
    for x in range(start, stop):
        if (other := looks[x]) is look:
            continue
        if other is None or look is None or characters[x] != " " or other.background != look.background:
            return False
    return True


def _whole_glyphs(start: int, stop: int, characters: list[str | None]) -> tuple[int, int]:
    while start and characters[start] == "":
        start -= 1
    while stop < len(characters) and characters[stop] == "":
        stop += 1
    return start, stop
