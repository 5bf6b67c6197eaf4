"""Turns frames into terminal output that contains only the changed cells.

For a streamed answer of 20,000 characters these are 105 KB instead of 1,460 KB (`python -m tests.bench tui-stream`).

`ScreenMemory` has two images of the screen, as cells: a character and a pen (a style as SGR codes) for every column.
`FrameWriter` writes the cells that differ.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rich.cells import get_character_cell_size, split_graphemes
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.strip import Strip

# ---------------------------------------------------------------------------------------------------------------- pens

_ON = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "blink": "5",
    "blink2": "6",
    "reverse": "7",
    "conceal": "8",
    "strike": "9",
    "underline2": "21",
    "frame": "51",
    "encircle": "52",
    "overline": "53",
}
_INVISIBLE_ON_SPACES = frozenset("1238")


class Pen(NamedTuple):
    """Style of a cell."""

    attributes: tuple[str, ...] = ()
    """SGR codes, without colours."""
    colour: str = ""
    """SGR codes; "" for the terminal's default."""
    background: str = ""
    link: str = ""
    """URL of the hyperlink."""

    @property
    def is_erased(self) -> bool:
        """Whether spaces with this pen look like erased cells."""
        return not (self.attributes or self.colour or self.link)


PLAIN = Pen()


@lru_cache(4096)
def make_pens(style: Style | None, system: ColorSystem = ColorSystem.TRUECOLOR) -> tuple[Pen, Pen]:
    """Pens of a style: for characters, and for spaces, of which usually only the background is visible."""
    if not style:
        return PLAIN, PLAIN

    def colour(wanted: Color | None, foreground: bool) -> str:
        if wanted is None or wanted.is_default:
            return ""
        return ";".join(wanted.downgrade(system).get_ansi_codes(foreground))

    attributes = tuple(number for name, number in _ON.items() if getattr(style, name))
    link = style.link if style.link and style.link.isprintable() else ""
    pen = Pen(attributes, colour(style.color, True), colour(style.bgcolor, False), link)
    return pen, _pen_of_spaces(pen)


@lru_cache(4096)
def _pen_of_spaces(pen: Pen) -> Pen:
    shows_only_background = not pen.link and _INVISIBLE_ON_SPACES.issuperset(pen.attributes)
    return Pen(background=pen.background) if shows_only_background else pen


@lru_cache(4096)
def switch_pen(before: Pen | None, after: Pen) -> str:
    """Sequence that switches from one pen to another. `before` None: from an unknown one, outside of hyperlinks."""
    whole = f"\x1b[{';'.join(filter(None, ('0', *after.attributes, after.colour, after.background)))}m"
    if before is None or not set(before.attributes) <= set(after.attributes):
        look = whole
    else:
        numbers = [number for number in after.attributes if number not in before.attributes]
        if before.colour != after.colour:
            numbers.append(after.colour or "39")
        if before.background != after.background:
            numbers.append(after.background or "49")
        look = min(f"\x1b[{';'.join(numbers)}m" if numbers else "", whole, key=len)
    if after.link == (before.link if before else ""):
        return look
    # The id joins the cells of an address that continues in the next row.
    return f"{look}\x1b]8;{f'id={zlib.crc32(after.link.encode()):x}' if after.link else ''};{after.link}\x1b\\"


# --------------------------------------------------------------------------------------------------------------- cells

Row = tuple[list[str | None], list[Pen | None]]
"""Characters and pens of all columns; None where unknown. A wide character is followed by empty strings."""

_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)])
_WIDE = (
    (0x1100, 0x115F),
    (0x2E80, 0xA4CF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE6F),
    (0xFF00, 0xFF60),
    (0xFFE0, 0xFFE6),
    (0x20000, 0x3FFFD),
)
"""East Asian scripts: two cells in every terminal, unlike emoji."""
_ASCII: frozenset[str | None] = frozenset({None, "", *map(chr, range(32, 127))})


def make_cells(strip: Strip, system: ColorSystem) -> tuple[list[str], list[Pen]]:
    characters: list[str] = []
    pens: list[Pen] = []
    for text, style, control in strip:
        if control or not text:
            continue
        pen, space = make_pens(style, system)
        if (text.isascii() and text.isprintable()) or all(certain_width(character) == 1 for character in text):
            characters += text
            if pen is space or " " not in text:
                pens += [pen] * len(text)
            else:
                pens += [space if character == " " else pen for character in text]
        else:
            _add_graphemes(text, pen, space, characters, pens)
    return characters, pens


def _add_graphemes(text: str, pen: Pen, space: Pen, characters: list[str], pens: list[Pen]) -> None:
    text = text.translate(_CONTROLS)
    for start, end, width in split_graphemes(text)[0]:
        glyph = text[start:end]
        if start and characters and _is_half_flag(glyph) and _is_half_flag(characters[-1]):
            # Write both halves together: terminals form no flag if the cursor is moved between them.
            characters[-1:] = [characters[-1] + glyph, ""]
            pens.append(pen)
        elif width:
            characters += [glyph, *[""] * (width - 1)]
            pens += [space if glyph == " " else pen] * width
        elif characters:
            at = len(characters) - 1
            while at and not characters[at]:
                at -= 1
            characters[at] += glyph


@lru_cache(4096)
def certain_width(character: str) -> int:
    """Width of a character in cells; 0 if terminals may differ."""
    if character.isascii():
        return int(character.isprintable())
    if len(character) > 1 or unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Cs", "Co", "Cn"):
        return 0
    if _is_half_flag(character):
        return 0  # one cell in some terminals, two in others
    width = get_character_cell_size(character)
    wide = unicodedata.east_asian_width(character) in ("W", "F")
    if width == 1:
        return int(not wide)
    return 2 if wide and any(first <= ord(character) <= last for first, last in _WIDE) else 0


def _is_half_flag(glyph: str) -> bool:
    return len(glyph) == 1 and "\U0001f1e6" <= glyph <= "\U0001f1ff"


def is_doubtful(characters: Iterable[str | None]) -> bool:
    """Whether terminals may disagree on the width of some character."""
    return not all(certain_width(character) for character in set(characters) - _ASCII if character)


# -------------------------------------------------------------------------------------------------------------- output

SHORT_GAP = 4
"""Maximum number of unchanged cells that are cheaper to rewrite than to move over."""
MIN_ERASED = 12
"""Number of spaces from which on erasing the cells and moving over them takes fewer bytes."""
MIN_ERASED_LAST = 6
"""The same if nothing is written after the spaces, so that no move is needed."""


class FrameWriter:
    """Collects the bytes of one frame."""

    def __init__(self, width: int, *, erases_in_colour: bool) -> None:
        """`erases_in_colour`: erased cells get the current background, as in all terminals except GNU screen."""
        self.pieces: list[str] = []
        self._width = width
        self._erases_in_colour = erases_in_colour
        self._pen: Pen | None = None
        self._at: tuple[int, int] | None = None
        """Cursor column and row; None if uncertain."""

    def scroll(self, first: int, last: int, rows: int) -> None:
        """Move the rows from `first` to `last` up by `rows`, or down if negative. The content of the new rows depends
        on the terminal."""
        # Delete/insert line also works where scrolling does not, such as the Linux console. All of these move the
        # cursor.
        command = f"\x1b[{rows}M" if rows > 0 else f"\x1b[{-rows}L"
        self.pieces.append(f"\x1b[{first + 1};{last + 1}r\x1b[{first + 1}H{command}\x1b[r")
        self._at = None

    def write_row(self, y: int, before: Row, after: Row) -> None:
        """Write the cells of a row that differ."""
        if is_doubtful(after[0]) or is_doubtful(before[0]):
            self._write_doubtful(y, after)
            return
        end = 0
        for start, stop in _runs(before, after):
            self._write_cells(y, max(start, end), stop, after)
            end = stop

    def finish(self, cursor: tuple[int, int]) -> str:
        """Return the whole output, which ends with the cursor at the given column and row and all styles reset."""
        if self._pen not in (None, PLAIN):
            self.pieces.append(switch_pen(self._pen, PLAIN))
        self._move(*cursor)
        return "".join(self.pieces)

    def _write_doubtful(self, y: int, row: Row) -> None:
        """Write the whole row, with a cursor move after each character whose width is uncertain. The row is erased
        first, since the old characters may have covered other cells than expected."""
        characters, pens = row
        if None not in characters:
            self._at = None
            self._move(0, y)
            self._look(next((pen for pen in reversed(pens) if pen and pen.is_erased), PLAIN), is_space=True)
            self.pieces.append("\x1b[K")
        start = 0
        for x, character in enumerate(characters):
            if character is None or is_doubtful((character,)):
                self._write_cells(y, start, x, row)
                start = x + 1
                if character is not None:
                    while start < self._width and characters[start] == "":
                        start += 1
                    self._write_cells(y, x, start, row)
                    self._at = None
        self._write_cells(y, start, self._width, row)

    def _write_cells(self, y: int, start: int, stop: int, row: Row) -> None:
        """Write known cells, none of which is half of a wide character."""
        characters, pens = row
        x = start
        while x < stop:
            pen = pens[x]
            assert pen is not None
            space = _pen_of_spaces(pen)
            end = x + 1
            if characters[x] == " " and pen == space:
                while end < self._width and characters[end] == " " and pens[end] == pen:
                    end += 1
                if self._erase(x, y, min(end, stop), pen, to_end=end == self._width, is_last=end >= stop):
                    x = end
                    continue
                end = min(end, stop)
            else:
                while end < stop and (pens[end] == pen or (pens[end] == space and characters[end] == " ")):
                    if characters[end] == " " and end + 1 < stop and characters[end + 1] == " ":
                        break
                    end += 1
            self._move(x, y)
            # The pen of spaces may also be that of plain text, which shows colour and weight.
            self._look(pen, is_space=pen == space and characters[x] == " ")
            self.pieces.append("".join(characters[x:end]))  # type: ignore[arg-type]
            self._at = (end, y) if end < self._width else None
            x = end

    def _erase(self, x: int, y: int, stop: int, pen: Pen, *, to_end: bool, is_last: bool) -> bool:
        """Erase cells if that is shorter than writing spaces. `to_end`: all cells after them may be erased too.
        `is_last`: nothing is written after them. Does not move the cursor past them."""
        least = MIN_ERASED_LAST if to_end or is_last else MIN_ERASED
        if stop - x < least or not pen.is_erased or (pen.background and not self._erases_in_colour):
            return False
        self._move(x, y)
        self._look(pen, is_space=True)
        self.pieces.append("\x1b[K" if to_end else f"\x1b[{stop - x}X")
        return True

    def _look(self, pen: Pen, *, is_space: bool) -> None:
        now = self._pen
        if now != pen and not (is_space and now is not None and _pen_of_spaces(now) == pen):
            self.pieces.append(switch_pen(now, pen))
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
    characters, pens = after
    start = stop = -1
    for x, (old, new, old_pen, pen) in enumerate(zip(before[0], characters, before[1], pens, strict=True)):
        if (old == new and old_pen == pen) or new is None:
            continue
        if start >= 0 and x - stop <= SHORT_GAP and _look_alike(pens[stop:x], pens[stop - 1]):
            stop = x + 1
            continue
        if start >= 0:
            yield _whole_glyphs(start, stop, characters)
        start, stop = x, x + 1
    if start >= 0:
        yield _whole_glyphs(start, stop, characters)


def _look_alike(gap: list[Pen | None], pen: Pen | None) -> bool:
    """Whether a gap can be written with the pen of the cell before it, as spaces between words can."""
    return pen is not None and all(one in (pen, _pen_of_spaces(pen)) for one in gap)


def _whole_glyphs(start: int, stop: int, characters: list[str | None]) -> tuple[int, int]:
    while start and characters[start] == "":
        start -= 1
    while stop < len(characters) and characters[stop] == "":
        stop += 1
    return start, stop


# ---------------------------------------------------------------------------------------------------------- the screen

MIN_MOVED = 3
"""Number of changed rows from which on a search for moved rows pays off."""
MAX_STRIPS = 400
_MARGIN = 2
"""Columns at the right edge that do not scroll with the text: the scrollbar."""


class RowMove(NamedTuple):
    first: int
    last: int
    """Rows of the scrolled part of the screen."""
    rows: int
    """Number of rows that its content moves up; negative: down."""


def find_move(before: Sequence[str | None], after: Sequence[str | None]) -> RowMove | None:
    """Find the longest range of rows that moved together, given the texts of all rows (None if unknown)."""
    places: dict[str, list[int]] = {}
    for y, text in enumerate(before):
        if text:
            places.setdefault(text, []).append(y)
    moves = Counter(
        old - y for y, text in enumerate(after) if text and text != before[y] for old in places.get(text, ())
    )
    if not moves:
        return None
    rows, height = moves.most_common(1)[0][0], len(after)
    first = last = start = 0
    for y, text in enumerate(after):
        old = before[y + rows] if 0 <= y + rows < height else None
        # A row that is still growing keeps its beginning.
        if text is None or old is None or (old != text and not (old and text.startswith(old))):
            start = y + 1
        elif y - start >= last - first:
            first, last = start, y
    overwritten = range(last + 1, last + rows + 1) if rows > 0 else range(first + rows, first)
    lost = sum(before[y] == after[y] for y in overwritten)
    if last - first + 1 < max(MIN_MOVED, lost + 1):
        return None
    return RowMove(first, last + rows, rows) if rows > 0 else RowMove(first + rows, last, rows)


def _make_unknown_row(width: int) -> Row:
    return [None] * width, [None] * width


class ScreenMemory:
    """Two images of the screen: as the app wants it, and as the terminal shows it."""

    def __init__(self, system: ColorSystem = ColorSystem.TRUECOLOR, *, erases_in_colour: bool = True) -> None:
        self._system = system
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
        self._made: dict[int, tuple[Strip, tuple[list[str], list[Pen]]]] = {}
        """Cells by the id of the strip, most of which reappear in the next frame. The strip is stored too, so that its
        id is not reused."""

    def resize(self, width: int, height: int) -> None:
        """Set the size. After a change nothing is known about the terminal's content or the wanted content."""
        if self.size != (width, height):
            self.size = (width, height)
            self._wanted = [_make_unknown_row(width) for _row in range(height)]
            self.forget()

    def forget(self) -> None:
        """Forget the screen after other output to the terminal, so that everything is written again."""
        width, height = self.size
        self._shown = [_make_unknown_row(width) for _row in range(height)]
        self._texts = [None] * height
        self._placed = set(range(height))
        self._cursor = None

    def place(self, strips: Iterable[tuple[int, int, Strip]]) -> None:
        """Put strips, each with column and row, into the wanted image."""
        width, height = self.size
        for x, y, strip in strips:
            if not (0 <= y < height and 0 <= x < width):
                continue
            characters, pens = self._cells(strip)
            row, row_pens = self._wanted[y]
            stop = x + len(characters)
            if stop > width:
                stop = width
                cut = characters[width - x] == ""
                characters, pens = characters[: width - x], pens[: width - x]
                if cut:
                    _blank_back(characters, width - x)
            if row[x] == "":
                _blank_back(row, x)
            row[x:stop] = characters
            row_pens[x:stop] = pens
            while stop < width and row[stop] == "":
                row[stop] = " "
                stop += 1
            self._placed.add(y)

    def _cells(self, strip: Strip) -> tuple[list[str], list[Pen]]:
        found = self._made.get(id(strip))
        if found is None:
            if len(self._made) >= MAX_STRIPS:
                self._made.clear()
            found = self._made[id(strip)] = strip, make_cells(strip, self._system)
        return found[1]

    def changes(self, cursor: tuple[int, int]) -> str:
        """Return the output that updates the terminal to the wanted image; "" if they are equal."""
        wanted, shown = self._wanted, self._shown
        changed = [y for y in sorted(self._placed) if wanted[y] != shown[y]]
        self._placed.clear()
        if not changed and cursor == self._cursor:
            return ""
        writer = FrameWriter(self.size[0], erases_in_colour=self._erases_in_colour)
        if self._cursor is None:
            writer.pieces.append("\x1b[r")  # another program may have set a scrolling region
        self._cursor = cursor
        texts = self._texts[:]
        for y in changed:
            texts[y] = _text(wanted[y])
        if len(changed) >= MIN_MOVED and (move := find_move(self._texts, texts)) is not None:
            first, last, rows = move
            writer.scroll(first, last, rows)
            new = [_make_unknown_row(self.size[0]) for _row in range(abs(rows))]
            part = shown[first : last + 1]
            shown[first : last + 1] = [*part[rows:], *new] if rows > 0 else [*new, *part[:rows]]
            changed = [y for y in range(len(wanted)) if wanted[y] != shown[y]]
        self._texts = texts
        for y in changed:
            writer.write_row(y, shown[y], wanted[y])
            characters, pens = wanted[y]
            shown[y] = characters[:], pens[:]
        return writer.finish(cursor)


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
