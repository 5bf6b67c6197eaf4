"""The styles that blocks paint with, made from the looks of a theme (`core/looks.py`), and variables for Textual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rich.color import Color as RichColor
from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.core.looks import Colour, Look, Shades, read_look


def rich_colour(colour: Colour) -> RichColor:
    if colour.rgb is not None:
        return RichColor.from_rgb(*colour.rgb)
    return RichColor.default() if colour.ansi < 0 else RichColor.from_ansi(colour.ansi)


def style_of(look: Look) -> Style:
    colour, behind = (None if one is None else rich_colour(one) for one in (look.colour, look.behind))
    attributes: dict[str, Any] = dict.fromkeys(look.attributes, True)
    return Style(color=colour, bgcolor=behind, **attributes)


def _look(text: str) -> Style:
    """A faster `Style.parse`, because every start parses many styles."""
    look = read_look(text, {})
    assert isinstance(look, Look), text
    return style_of(look)


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


def textual_variables(shades: Shades) -> dict[str, str]:
    """Variables for Textual's CSS: ours ($muted, $faint, $rule, $raised, $user), and those of the widgets we use.

    All are opaque. Includes all variables that `ansi` themes leave undefined: the app would crash if a widget's
    rule used a missing one.
    """
    css = {name: colour.css for name, colour in shades.colours.items()}
    native = shades.colours["foreground"].rgb is None
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
