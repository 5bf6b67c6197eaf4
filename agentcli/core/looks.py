"""Colours and looks as values, and all shades derived from the few colours of a theme.

A colour is an RGB value, one of the terminal's sixteen colours, or the terminal's default. A theme file cannot contain
anything else, so nothing in one can become a control sequence, a CSS rule or markup. Looks are named by meaning; what
paints them never names colours, and every meaning is also readable without colour, by signs and words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentcli.core.frozen import frozen

Rgb = tuple[int, int, int]

ANSI = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI_NAMES: Mapping[str, int] = {
    **{f"ansi-{name}": number for number, name in enumerate(ANSI)},
    **{f"ansi-bright-{name}": number + 8 for number, name in enumerate(ANSI)},
}
ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")
BLACK: Rgb = (0, 0, 0)
WHITE: Rgb = (255, 255, 255)

_HEX = re.compile(r"#[0-9a-fA-F]{6}")


@frozen
class Colour:
    """`rgb` if known; else `ansi`, an index of the terminal's palette, or -1 for the terminal's default."""

    rgb: Rgb | None = None
    ansi: int = -1

    @property
    def css(self) -> str:
        if self.rgb is not None:
            return "#{:02x}{:02x}{:02x}".format(*self.rgb)
        if self.ansi < 0:
            return "ansi_default"
        return f"ansi_{'bright_' if self.ansi > 7 else ''}{ANSI[self.ansi % 8]}"


TERMINAL = Colour()


def parse_colour(text: str) -> Colour | None:
    """`#rrggbb`, `ansi-red`, `ansi-bright-red` or `terminal`; None for anything else."""
    if _HEX.fullmatch(text):
        return Colour((int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)))
    if text in ANSI_NAMES:
        return Colour(ansi=ANSI_NAMES[text])
    return TERMINAL if text == "terminal" else None


def blend(below: Rgb, above: Rgb, share: float) -> Rgb:
    red, green, blue = (round(low + (high - low) * share) for low, high in zip(below, above, strict=True))
    return red, green, blue


def luminance(colour: Rgb) -> float:
    """Relative luminance, defined by WCAG 2."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio, from 1 (equal) to 21 (black on white)."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def is_light(colour: Rgb) -> bool:
    return contrast(colour, BLACK) > contrast(colour, WHITE)


def readable(colour: Rgb, background: Rgb, ratio: float) -> Rgb:
    """Move the colour towards black or white, as little as needed to be readable on the background."""
    away = BLACK if is_light(background) else WHITE
    for step in range(11):
        moved = blend(colour, away, step / 10)
        if contrast(moved, background) >= ratio:
            return moved
    return away


@frozen
class Look:
    """How text looks: its colour and the one behind it, None for those of its surroundings, and some of ATTRIBUTES."""

    colour: Colour | None = None
    behind: Colour | None = None
    attributes: tuple[str, ...] = ()


def read_look(text: str, colours: Mapping[str, Colour]) -> Look | str:
    """Parse a style such as `bold accent on #202020`, where a colour may be a name of the theme; `plain` means none.

    Returns a message if the text is invalid.
    """
    words = text.split()
    if not words:
        return "it is empty"
    if words == ["plain"]:
        return Look()
    on = words.index("on") if "on" in words else len(words)
    attributes = tuple(word for word in words[:on] if word in ATTRIBUTES)
    both: list[Colour | None] = []
    for names in ([word for word in words[:on] if word not in ATTRIBUTES], words[on + 1 :]):
        found = {name: colours.get(name) or parse_colour(name) for name in names}
        unknown = next((name for name, colour in found.items() if colour is None), None)
        if unknown is not None:
            return f"{unknown[:40]!r} is neither a colour nor an attribute"
        if len(names) > 1:
            return f"{names[1][:40]!r} is one colour too many"
        both += [colour for colour in found.values() if colour] or [None]
    if on == len(words) - 1:
        return "a colour must follow `on`"
    return Look(both[0], both[1], attributes)


ASSUMED_DARK: Rgb = (0x14, 0x16, 0x1B)
ASSUMED_LIGHT: Rgb = (0xFC, 0xFC, 0xFC)
"""Assumed background of the terminal until it reports one."""

MEANINGS: Mapping[str, str] = {
    "success": "green",
    "warning": "yellow",
    "error": "red",
    "added": "green",
    "removed": "red",
}
"""Colours with a meaning, and their usual hue. Diff colours are only blended into the background of text."""

_BLENDED: Mapping[str, tuple[str, float]] = {
    "muted": ("foreground", 0.62),
    "faint": ("foreground", 0.42),
    "rule": ("foreground", 0.24),
    "surface": ("foreground", 0.055),
    "raised": ("foreground", 0.10),
    "selection": ("accent", 0.30),
}
"""Shades blended from a colour and the background."""

LOOKS: Mapping[str, str] = {
    "text": "foreground",
    "muted": "muted",
    "faint": "faint",
    "accent": "accent",
    "user": "bold foreground",
    "user_mark": "bold accent",
    "thinking": "italic muted",
    "rule": "rule",
    "surface": "foreground on surface",
    "chip": "accent on raised",
    "heading": "bold accent",
    "strong": "bold",
    "emphasis": "italic",
    "strike": "strike",
    "code": "cyan",
    "code_block": "foreground on surface",
    "link": "underline blue",
    "quote": "italic muted",
    "bullet": "accent",
    "table": "faint",
    "tool": "bold foreground",
    "running": "yellow",
    "success": "success",
    "warning": "warning",
    "error": "error",
    "info": "muted",
    "hunk": "cyan",
    "selection": "on selection",
}
"""Styles of the palette, except foreground and background pairs, which are computed."""

PAIRS = ("added", "removed", "added_word", "removed_word", "match", "match_current")

SYNTAX: Mapping[str, str] = {
    "keyword": "purple",
    "string": "green",
    "number": "orange",
    "comment": "italic muted",
    "function": "blue",
    "type": "yellow",
    "builtin": "cyan",
    "operator": "foreground",
    "name": "foreground",
    "decorator": "pink",
    "constant": "orange",
    "tag": "red",
    "attribute": "yellow",
    "escape": "pink",
    "added": "success",
    "removed": "error",
    "heading": "bold accent",
}


_MARKERS: tuple[Rgb, Rgb] = ((0xFF, 0xE0, 0x82), (0xFF, 0xB7, 0x4D))


@frozen
class Shades:
    colours: Mapping[str, Colour]
    """Colours by the names that styles may use."""
    ground: Rgb
    """Actual or assumed RGB value of the background."""
    dark: bool

    @classmethod
    def of(cls, named: Mapping[str, Colour], dark: bool, terminal: Rgb | None = None) -> Shades:
        """`terminal`: the background that the terminal reported."""
        foreground = named["foreground"]
        background, ground = named["background"], named["background"].rgb
        if ground is None:
            ground = ASSUMED_DARK if dark else ASSUMED_LIGHT
            if foreground.rgb is not None and terminal is not None and is_light(terminal) == dark:
                # A dark theme on a light terminal, or the reverse, would be unreadable on the terminal's background.
                background = Colour(ground)
            elif terminal is not None:
                ground = terminal
        colours = {"purple": named["blue"], "pink": named["red"], **named, "background": background}
        for name, (hue, share) in _BLENDED.items():
            above = colours[hue].rgb
            blended = TERMINAL if above is None else Colour(blend(ground, above, share))
            colours.setdefault(name, blended)
        for name, hue in MEANINGS.items():
            colours.setdefault(name, colours[hue])
        return cls(colours, ground, dark)

    def look(self, text: str) -> Look:
        look = read_look(text, self.colours)
        assert isinstance(look, Look), text  # themes are checked when they are read
        return look

    def looks(self, own: Mapping[str, str]) -> dict[str, Look]:
        """The look of every meaning by name; `own` are the theme's own definitions."""
        made = {name: self.look(text) for name, text in {**LOOKS, **own}.items()}
        for name in PAIRS:
            if name not in made:
                made[name] = self._pair(name)
        return made

    def syntax(self, own: Mapping[str, str]) -> dict[str, Look]:
        """The look of code by token kind."""
        return {kind: self.look(text) for kind, text in {**SYNTAX, **own}.items()}

    def _pair(self, name: str) -> Look:
        bold = name.endswith(("_word", "_current"))
        attributes = ("bold",) if bold else ()
        if name.startswith("match"):
            hue = self.colours["orange" if bold else "yellow"]
            # Hues of a light theme are dark enough to be text; a highlighter is not.
            behind = hue if self.dark or hue.rgb is None else Colour(_MARKERS[bold])
            text = None if behind.rgb is None else readable(self.ground if self.dark else BLACK, behind.rgb, 4.5)
        else:
            hue = self.colours[name.removesuffix("_word")]
            if hue.rgb is None:
                return Look(hue, None, (*attributes, "reverse") if bold else ())
            behind = Colour(blend(self.ground, hue.rgb, 0.38 if bold else 0.18))
            assert behind.rgb is not None
            foreground = self.colours["foreground"].rgb or (WHITE if self.dark else BLACK)
            text = readable(blend(hue.rgb, foreground, 0.6), behind.rgb, 7.0)
        if text is None:
            return Look(behind, None, (*attributes, "reverse"))
        return Look(Colour(text), behind, attributes)
