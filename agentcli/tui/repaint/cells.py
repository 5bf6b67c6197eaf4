"""Convert strips to cells: a character and a pen for every column. A pen is a style as SGR codes."""

from __future__ import annotations

import functools
import unicodedata
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import get_character_cell_size, split_graphemes
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.strip import Strip

MAX_PENS = 4096
"""Maximum number of cached pens; a conversation uses a few dozen."""

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
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
"""SGR code that ends each attribute. Attributes without an entry need a full reset."""
_INVISIBLE_ON_SPACES = frozenset("1238")


class Pen(NamedTuple):
    """Style of a cell. Pens are mostly interned, so that they can be compared by identity."""

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

    @property
    def sequence(self) -> str:
        """Sequence that sets this pen after any other, without the link."""
        return f"\x1b[{';'.join(filter(None, ('0', *self.attributes, self.colour, self.background)))}m"


class Pens:
    """All pens of one terminal, with caches."""

    def __init__(self, system: ColorSystem = ColorSystem.TRUECOLOR) -> None:
        self._system = system
        self._of_style: dict[Style | None, tuple[Pen, Pen]] = {}
        self._known: dict[Pen, Pen] = {}
        self._spaces: dict[Pen, Pen] = {}
        self._switches: dict[tuple[Pen, Pen], str] = {}
        self.plain = self._one(Pen())

    def of(self, style: Style | None) -> tuple[Pen, Pen]:
        """Pens of a style: for characters, and for spaces, which need no foreground colour."""
        found = self._of_style.get(style)
        if found is None:
            if len(self._of_style) >= MAX_PENS:
                self._of_style.clear()
            found = self._of_style[style] = self._made(style) if style else (self.plain, self.plain)
        return found

    def space(self, pen: Pen) -> Pen:
        """Pen of spaces written with this one: usually only the background is visible."""
        found = self._spaces.get(pen)
        if found is None:
            if len(self._spaces) >= MAX_PENS:
                self._spaces.clear()
            shows_only_background = not pen.link and _INVISIBLE_ON_SPACES.issuperset(pen.attributes)
            found = self._spaces[pen] = self._one(Pen(background=pen.background) if shows_only_background else pen)
        return found

    def switch(self, before: Pen, after: Pen) -> str:
        """Sequence that switches from one pen to another."""
        if before is after:
            return ""
        found = self._switches.get((before, after))
        if found is None:
            if len(self._switches) >= MAX_PENS:
                self._switches.clear()
            look = min(_changed(before, after), after.sequence, key=len)
            found = self._switches[before, after] = look + _link(before, after)
        return found

    def start(self, pen: Pen) -> str:
        """Sequence that sets a pen whatever was written before, outside of hyperlinks."""
        return pen.sequence + _link(self.plain, pen)

    def _made(self, style: Style) -> tuple[Pen, Pen]:
        attributes = tuple(number for name, number in _ON.items() if getattr(style, name))
        link = style.link if style.link and style.link.isprintable() else ""
        pen = Pen(attributes, self._colour(style.color, True), self._colour(style.bgcolor, False), link)
        return self._one(pen), self.space(pen)

    def _colour(self, colour: Color | None, foreground: bool) -> str:
        if colour is None or colour.is_default:
            return ""
        return ";".join(colour.downgrade(self._system).get_ansi_codes(foreground))

    def _one(self, pen: Pen) -> Pen:
        if len(self._known) >= MAX_PENS:
            self._known = {self.plain: self.plain}
        return self._known.setdefault(pen, pen)


def _changed(before: Pen, after: Pen) -> str:
    ending = [number for number in before.attributes if number not in after.attributes]
    if any(number not in _OFF for number in ending):
        return after.sequence
    off = dict.fromkeys(_OFF[number] for number in ending)
    # Bold and dim are ended by the same code.
    kept = [number for number in before.attributes if number in after.attributes and _OFF.get(number) not in off]
    numbers = [*off, *(number for number in after.attributes if number not in kept)]
    if before.colour != after.colour:
        numbers.append(after.colour or "39")
    if before.background != after.background:
        numbers.append(after.background or "49")
    return f"\x1b[{';'.join(numbers)}m" if numbers else ""


def _link(before: Pen, after: Pen) -> str:
    if before.link == after.link:
        return ""
    # The id joins the cells of an address that continues in the next row.
    return f"\x1b]8;id={zlib.crc32(after.link.encode()):x};{after.link}\x1b\\" if after.link else "\x1b]8;;\x1b\\"


Cells = tuple[list[str], list[Pen]]
"""Characters and pens of some columns. A wide character is followed by empty strings."""

MAX_STRIPS = 400
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
_EMOJI_STYLE = "\ufe0f"
_CERTAIN: set[str | None] = {None, "", *map(chr, range(32, 127))}
"""Characters known to have the same width in all terminals (cache)."""


class CellMaker:
    """Converts strips to cells, and caches recent strips: most of them reappear in the next frame."""

    def __init__(self, pens: Pens) -> None:
        self._pens = pens
        self._narrow: set[str] = set()
        """Non-ASCII characters known to take one cell (cache)."""
        self._made: dict[int, tuple[Strip, Cells]] = {}
        """Cells by the id of the strip. The strip is stored too, so that its id is not reused."""

    def cells(self, strip: Strip) -> Cells:
        found = self._made.get(id(strip))
        if found is None:
            if len(self._made) >= MAX_STRIPS:
                self._made.clear()
            found = self._made[id(strip)] = strip, self._make(strip)
        return found[1]

    def _make(self, strip: Strip) -> Cells:
        characters: list[str] = []
        looks: list[Pen] = []
        for text, style, control in strip:
            if control or not text:
                continue
            pen, space = self._pens.of(style)
            if (text.isascii() and text.isprintable()) or self._are_narrow(text):
                characters += text
                if pen is space or " " not in text:
                    looks += [pen] * len(text)
                else:
                    looks += [space if character == " " else pen for character in text]
            else:
                self._add_graphemes(text, pen, space, characters, looks)
        return characters, looks

    def _add_graphemes(self, text: str, pen: Pen, space: Pen, characters: list[str], looks: list[Pen]) -> None:
        text = text.translate(_CONTROLS)
        for start, end, width in split_graphemes(text)[0]:
            glyph = text[start:end]
            if start and characters and _is_half_flag(glyph) and _is_half_flag(characters[-1]):
                # Write both halves together: terminals form no flag if the cursor is moved between them.
                characters[-1:] = [characters[-1] + glyph, ""]
                looks.append(pen)
            elif width:
                characters += [glyph, *[""] * (width - 1)]
                looks += [space if glyph == " " else pen] * width
            elif characters:
                at = len(characters) - 1
                while at and not characters[at]:
                    at -= 1
                characters[at] += glyph

    def _are_narrow(self, text: str) -> bool:
        if self._narrow.issuperset(text):
            return True
        if any(certain_width(character) != 1 for character in text):
            return False
        self._narrow.update(text)
        return True


@functools.lru_cache(4096)
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


def narrowed(glyph: str) -> str:
    """Reduce a one-cell glyph to the part that all terminals show in one cell, without e.g. a skin tone. Half of a flag
    becomes its letter."""
    first = chr(ord(glyph) - 0x1F1E6 + ord("A")) if _is_half_flag(glyph) else glyph[0]
    marks = (mark for mark in glyph[1:] if unicodedata.category(mark) in ("Mn", "Me") and mark != _EMOJI_STYLE)
    return first + "".join(marks)


def is_doubtful(characters: Sequence[str | None]) -> bool:
    """Whether terminals may disagree on the width of some character of a row."""
    unsure = set(characters) - _CERTAIN
    if all(certain_width(character) for character in unsure if character):
        _CERTAIN.update(unsure)
        return False
    return True
