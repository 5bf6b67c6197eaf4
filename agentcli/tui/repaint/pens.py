"""Styles of cells as SGR codes, and the shortest sequence from one style to another."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from rich.color import Color, ColorSystem
from rich.style import Style

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
