"""Convert strips to cells: a character and a pen for every column."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

from rich.cells import get_character_cell_size, split_graphemes
from textual.strip import Strip

from agentcli.tui.repaint.pens import Pen, Pens

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
