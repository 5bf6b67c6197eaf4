"""The looks of cells, and the shortest way from one to another in the terminal."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from rich.color import Color, ColorSystem
from rich.style import Style

MOST_PENS = 4096
"""Looks that are remembered; a conversation has some dozens."""

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
"""By attribute: what ends it. Without an entry only a full reset does."""
_INVISIBLE_ON_SPACES = frozenset("1238")


class Pen(NamedTuple):
    """How a cell looks. There is one object for most looks, so that comparing them takes no time."""

    attributes: tuple[str, ...] = ()
    """Numbers of the SGR sequence, without colours."""
    colour: str = ""
    """Numbers of the SGR sequence; "" for the terminal's own."""
    background: str = ""
    link: str = ""
    """Address of the hyperlink."""

    @property
    def is_erased(self) -> bool:
        """Whether spaces of this look are like erased cells."""
        return not (self.attributes or self.colour or self.link)

    @property
    def sequence(self) -> str:
        """The look from any other, without the link."""
        return f"\x1b[{';'.join(filter(None, ('0', *self.attributes, self.colour, self.background)))}m"


class Pens:
    """All pens of one terminal, with what was worked out about them."""

    def __init__(self, system: ColorSystem = ColorSystem.TRUECOLOR) -> None:
        self._system = system
        self._of_style: dict[Style | None, tuple[Pen, Pen]] = {}
        self._known: dict[Pen, Pen] = {}
        self._spaces: dict[Pen, Pen] = {}
        self._switches: dict[tuple[Pen, Pen], str] = {}
        self.plain = self._one(Pen())

    def of(self, style: Style | None) -> tuple[Pen, Pen]:
        """The pen of a style: for characters, and for spaces, which have no colour of their own."""
        found = self._of_style.get(style)
        if found is None:
            if len(self._of_style) >= MOST_PENS:
                self._of_style.clear()
            found = self._of_style[style] = self._made(style) if style else (self.plain, self.plain)
        return found

    def space(self, pen: Pen) -> Pen:
        """The pen of spaces that are written with this one: of most only the background is seen."""
        found = self._spaces.get(pen)
        if found is None:
            if len(self._spaces) >= MOST_PENS:
                self._spaces.clear()
            shows_only_background = not pen.link and _INVISIBLE_ON_SPACES.issuperset(pen.attributes)
            found = self._spaces[pen] = self._one(Pen(background=pen.background) if shows_only_background else pen)
        return found

    def switch(self, before: Pen, after: Pen) -> str:
        """What changes the look of what is written next."""
        if before is after:
            return ""
        found = self._switches.get((before, after))
        if found is None:
            if len(self._switches) >= MOST_PENS:
                self._switches.clear()
            look = min(_changed(before, after), after.sequence, key=len)
            found = self._switches[before, after] = look + _link(before, after)
        return found

    def start(self, pen: Pen) -> str:
        """What gives the look whatever was written before, outside of hyperlinks."""
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
        if len(self._known) >= MOST_PENS:
            self._known = {self.plain: self.plain}
        return self._known.setdefault(pen, pen)


def _changed(before: Pen, after: Pen) -> str:
    ending = [number for number in before.attributes if number not in after.attributes]
    if any(number not in _OFF for number in ending):
        return after.sequence
    off = dict.fromkeys(_OFF[number] for number in ending)
    # Bold and dim end together.
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
    # The id joins the cells of an address that goes on in the next row.
    return f"\x1b]8;id={zlib.crc32(after.link.encode()):x};{after.link}\x1b\\" if after.link else "\x1b]8;;\x1b\\"
