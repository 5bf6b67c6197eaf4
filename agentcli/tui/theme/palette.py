"""Colours as values, the styles that blocks paint with, and all shades derived from the few colours of a theme.

A colour is an RGB value, one of the terminal's sixteen colours, or the terminal's default. A theme file cannot contain
anything else, so nothing in one can become a control sequence, a CSS rule or markup. Styles are named by
meaning; blocks never name colours, and every meaning is also readable without colour, by signs and words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
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
    words = text.split()
    if not words:
        return "it is empty"
    if words == ["plain"]:
        return Style()
    on = words.index("on") if "on" in words else len(words)
    attributes: dict[str, Any] = {word: True for word in words[:on] if word in ATTRIBUTES}
    both: list[RichColor | None] = []
    for names in ([word for word in words[:on] if word not in ATTRIBUTES], words[on + 1 :]):
        found = {name: colours.get(name) or parse_colour(name) for name in names}
        unknown = next((name for name, colour in found.items() if colour is None), None)
        if unknown is not None:
            return f"{unknown[:40]!r} is neither a colour nor an attribute"
        if len(names) > 1:
            return f"{names[1][:40]!r} is one colour too many"
        both += [colour.rich for colour in found.values() if colour] or [None]
    if on == len(words) - 1:
        return "a colour must follow `on`"
    return Style(color=both[0], bgcolor=both[1], **attributes)


def _look(text: str) -> Style:
    """A faster `Style.parse`, because every start parses many styles."""
    style = parse_look(text, {})
    assert isinstance(style, Style), text
    return style


@frozen(kw_only=True)
class Palette:
    """The styles of a theme; the defaults are those of `dark`."""

    name: str = "dark"
    dark: bool = True
    colours: bool = True
    """False under NO_COLOR: styles then use bold, dim, italic, underline and reverse only."""

    text: Style = _look("#d5dae3")
    muted: Style = _look("#8f99a9")
    faint: Style = _look("#6a7484")
    accent: Style = _look("#7cb7ff")
    user: Style = _look("bold #d5dae3")
    user_mark: Style = _look("bold #7cb7ff")
    thinking: Style = _look("italic #8f99a9")
    rule: Style = _look("#3d4552")
    surface: Style = _look("#d5dae3 on #1f2126")
    """Text on raised surfaces: menus, dialogs, cards."""
    chip: Style = _look("#7cb7ff on #272a2f")
    """Placeholder for a paste, an image or a file."""

    heading: Style = _look("bold #7cb7ff")
    strong: Style = _look("bold")
    emphasis: Style = _look("italic")
    strike: Style = _look("strike")
    code: Style = _look("#7cc9c5")
    code_block: Style = _look("#d5dae3 on #1f2126")
    link: Style = _look("underline #7cb7ff")
    quote: Style = _look("italic #8f99a9")
    bullet: Style = _look("#7cb7ff")
    table: Style = _look("#6a7484")

    tool: Style = _look("bold #d5dae3")
    running: Style = _look("#e3c57b")
    success: Style = _look("#93c98a")
    warning: Style = _look("#e3c57b")
    error: Style = _look("#f27d86")
    info: Style = _look("#8f99a9")

    added: Style = _look("#bbd3bf on #2b362f")
    removed: Style = _look("#e1b5be on #3c292e")
    added_word: Style = _look("bold #f8fbf9 on #445a45")
    removed_word: Style = _look("bold #f3e1e5 on #683d44")
    hunk: Style = _look("#7cc9c5")

    match: Style = _look("#14161b on #e3c57b")
    match_current: Style = _look("bold #14161b on #f0a868")
    selection: Style = _look("on #33465f")

    syntax: Mapping[str, Style] = field(
        default_factory=lambda: {
            "keyword": _look("#c39bf0"),
            "string": _look("#93c98a"),
            "number": _look("#f0a868"),
            "comment": _look("italic #8f99a9"),
            "function": _look("#7cb7ff"),
            "type": _look("#e3c57b"),
            "builtin": _look("#7cc9c5"),
            "operator": _look("#d5dae3"),
            "name": _look("#d5dae3"),
            "decorator": _look("#e99ac6"),
            "constant": _look("#f0a868"),
            "tag": _look("#f27d86"),
            "attribute": _look("#e3c57b"),
            "escape": _look("#e99ac6"),
            "added": _look("#93c98a"),
            "removed": _look("#f27d86"),
            "heading": _look("bold #7cb7ff"),
        }
    )
    """Code styles by token kind; others use `name`."""


_PLAIN_LOOKS = {
    "plain": "text surface code_block running success removed",
    "dim": "muted faint rule table info",
    "bold": "accent user user_mark code bullet tool warning error added",
    "italic": "quote hunk",
    "underline": "link removed_word",
    "reverse": "chip match selection",
    "dim italic": "thinking",
    "bold underline": "heading added_word",
    "reverse bold underline": "match_current",
}
_PLAIN_SYNTAX = {"plain": "name removed", "dim": "comment", "bold": "keyword heading added"}


def _read_named_looks(looks: Mapping[str, str]) -> dict[str, Any]:
    return {name: _look(look) for look, names in looks.items() for name in names.split()}


WITHOUT_COLOURS = Palette(
    name="plain", colours=False, syntax=_read_named_looks(_PLAIN_SYNTAX), **_read_named_looks(_PLAIN_LOOKS)
)


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

    def look(self, text: str) -> Style:
        style = parse_look(text, self.colours)
        assert isinstance(style, Style), text  # themes are checked when they are read
        return style

    def styles(self, own: Mapping[str, str]) -> dict[str, Any]:
        """Every style of the palette by field name; `own` are the theme's own definitions."""
        made = {name: self.look(text) for name, text in {**LOOKS, **own}.items()}
        for name in PAIRS:
            if name not in made:
                made[name] = self._pair(name)
        return made

    def _pair(self, name: str) -> Style:
        bold = name.endswith(("_word", "_current"))
        if name.startswith("match"):
            hue = self.colours["orange" if bold else "yellow"]
            # Hues of a light theme are dark enough to be text; a highlighter is not.
            behind = hue if self.dark or hue.rgb is None else Colour(_MARKERS[bold])
            text = None if behind.rgb is None else readable(self.ground if self.dark else BLACK, behind.rgb, 4.5)
        else:
            hue = self.colours[name.removesuffix("_word")]
            if hue.rgb is None:
                return Style(color=hue.rich, bold=bold or None, reverse=bold or None)
            behind = Colour(blend(self.ground, hue.rgb, 0.38 if bold else 0.18))
            assert behind.rgb is not None
            foreground = self.colours["foreground"].rgb or (WHITE if self.dark else BLACK)
            text = readable(blend(hue.rgb, foreground, 0.6), behind.rgb, 7.0)
        if text is None:
            return Style(color=behind.rich, bold=bold or None, reverse=True)
        return Style(color=Colour(text).rich, bgcolor=behind.rich, bold=bold or None)

    def variables(self) -> dict[str, str]:
        """Variables for Textual's CSS: ours ($muted, $faint, $rule, $raised, $user), and those of the widgets we use.

        All are opaque. Includes all variables that `ansi` themes leave undefined: the app would crash if a widget's
        rule used a missing one.
        """
        css = {name: colour.css for name, colour in self.colours.items()}
        native = self.colours["foreground"].rgb is None
        # Shades may equal the background, so marked text needs another colour or other attributes.
        marked = "ansi_bright_white" if native and css["selection"] != "ansi_default" else css["foreground"]
        by_value = (
            (css["accent"], "user"),
            (css["foreground"], "text ansi-foreground input-cursor-background"),
            (css["muted"], "text-muted scrollbar-active"),
            (css["faint"], "text-disabled foreground-disabled scrollbar-hover"),
            (css["rule"], "border border-blurred scrollbar"),
            (css["background"], "scrollbar-background scrollbar-background-hover scrollbar-background-active"),
            (css["background"], "scrollbar-corner-color input-cursor-foreground"),
            (css["surface"], "surface boost"),
            (css["raised"], "surface-active panel panel-lighten-1 ansi-background"),
            (css["selection"], "block-cursor-background input-selection-background screen-selection-background"),
            (marked, "input-selection-foreground screen-selection-foreground"),
            ("reverse" if css["selection"] == "ansi_default" else "none", "selection-style"),
            ("reverse" if native else "none", "input-cursor-text-style"),
        )
        return {
            **{name: css[name] for name in ("muted", "faint", "rule", "raised")},
            **{f"text-{name}": css[name] for name in ("success", "warning", "error")},
            **{name: value for value, names in by_value for name in names.split()},
        }
