"""Colour values, contrast, and the small style language of theme files.

A colour is an RGB value, one of the terminal's sixteen colours, or the terminal's default. A theme file cannot contain
anything else, so nothing in one can become a control sequence, a CSS rule or markup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.color import Color as RichColor
from rich.style import Style

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
    def rich(self) -> RichColor:
        if self.rgb is not None:
            return RichColor.from_rgb(*self.rgb)
        return RichColor.default() if self.ansi < 0 else RichColor.from_ansi(self.ansi)

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


def parse_look(text: str, colours: Mapping[str, Colour]) -> Style | str:
    """Parse a style such as `bold accent on #202020`, where a colour may be a name of the theme; `plain` means none.

    Returns a message if the text is invalid.
    """
    attributes: dict[str, Any] = {}
    color: Colour | None = None
    background: Colour | None = None
    words = text.split()
    if not words:
        return "it is empty"
    on = False
    for word in words:
        if word in ATTRIBUTES and not on:
            attributes[word] = True
        elif word == "plain" and len(words) == 1:
            break
        elif word == "on" and not on:
            on = True
        else:
            found = colours.get(word) or parse_colour(word)
            if found is None:
                return f"{word[:40]!r} is neither a colour nor an attribute"
            if (background if on else color) is not None:
                return f"{word[:40]!r} is one colour too many"
            if on:
                background = found
            else:
                color = found
    if on and background is None:
        return "a colour must follow `on`"
    return Style(color=color.rich if color else None, bgcolor=background.rich if background else None, **attributes)
