"""The colours of an exported page: two of our themes, a dark and a light one, as style sheets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcli.config.themes import REQUIRED, Theme, ThemeError, load_theme
from agentcli.core.frozen import frozen
from agentcli.core.looks import Colour, Shades

_COLOURS = ("foreground", "surface", "raised", "rule", "accent")
_COUNTERPARTS = {"dark": "light", "mocha": "latte", "light": "dark", "latte": "mocha"}
_ATTRIBUTES = {
    "bold": "font-weight:600",
    "italic": "font-style:italic",
    "underline": "text-decoration:underline",
    "strike": "text-decoration:line-through",
}


@frozen
class PageThemes:
    active: Theme
    other: Theme
    """Its counterpart for the other background."""
    follows_reader: bool
    """Whether the page begins with the one that the reader's system prefers."""


def choose_themes(name: str, folders: Sequence[Path]) -> PageThemes:
    """`name`: that of a theme, or "auto" for `dark` and `light`, whichever the reader prefers. Raises `ThemeError`.

    A page has no terminal whose colours it could use: a theme of such colours is replaced by `dark` or `light`."""
    chosen = load_theme("dark" if name == "auto" else name, folders)
    opposite = "light" if chosen.dark else "dark"
    if any(chosen.colours[colour].rgb is None for colour in REQUIRED if colour != "background"):
        chosen = load_theme("dark" if chosen.dark else "light", folders)
    family, _dash, kind = chosen.name.rpartition("-")
    try:
        other = load_theme(f"{family}-{_COUNTERPARTS.get(kind, opposite)}", folders)
    except ThemeError:
        other = load_theme(opposite, folders)
    return PageThemes(chosen, other, name == "auto")


def theme_css(theme: Theme) -> str:
    shades = Shades.of(theme.colours, theme.dark)
    foreground = shades.colours["foreground"]
    name = "dark" if theme.dark else "light"
    values = [f"color-scheme:{name}", f"--background:{Colour(shades.ground).css}"]
    values += [f"--{name}:{_css(shades.colours[name], foreground)}" for name in _COLOURS]
    for meaning, look in shades.looks(theme.looks).items():
        values.append(f"--t-{meaning.replace('_', '-')}:{_css(look.colour, foreground)}")
        if look.behind is not None:
            values.append(f"--{meaning.replace('_', '-')}-behind:{_css(look.behind, Colour(shades.ground))}")
    rules = [f"[data-theme={name}]{{{';'.join(values)}}}"]
    for kind, look in shades.syntax(theme.syntax).items():
        attributes = [_ATTRIBUTES[attribute] for attribute in look.attributes if attribute in _ATTRIBUTES]
        rule = ";".join([f"color:{_css(look.colour, foreground)}", *attributes])
        rules.append(f"[data-theme={name}] .k-{kind}{{{rule}}}")
    return "\n".join(rules)


def _css(colour: Colour | None, default: Colour) -> str:
    return default.css if colour is None or colour.rgb is None else colour.css
