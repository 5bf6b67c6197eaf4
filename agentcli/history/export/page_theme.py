"""The colours of an exported page: two of our themes, a dark and a light one, as style sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli.config.themes import Theme, ThemeError, load_theme
from agentcli.core.frozen import frozen
from agentcli.core.looks import ASSUMED_DARK, ASSUMED_LIGHT, Colour, Look, Rgb, Shades, readable

_COUNTERPARTS = ("-dark", "-light"), ("-mocha", "-latte")
_ANSI: Sequence[Rgb] = (
    *((0x1C, 0x1C, 0x1C), (0xC8, 0x40, 0x40), (0x3C, 0x96, 0x3C), (0xA8, 0x84, 0x18)),
    *((0x3C, 0x6E, 0xC8), (0xA0, 0x4C, 0xB4), (0x24, 0x8C, 0x98), (0xC8, 0xC8, 0xC8)),
    *((0x68, 0x68, 0x68), (0xF0, 0x70, 0x70), (0x74, 0xC8, 0x74), (0xE0, 0xC0, 0x58)),
    *((0x78, 0xA8, 0xF0), (0xD0, 0x88, 0xE0), (0x60, 0xC4, 0xCC), (0xF4, 0xF4, 0xF4)),
)
"""Stand for the sixteen colours of a terminal, which a page has not."""
_READABLE = 4.5
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
    """`name`: that of a theme, or "auto" for `dark` and `light`, whichever the reader prefers. Raises `ThemeError`."""
    if name in ("", "auto"):
        return PageThemes(load_theme("dark", folders), load_theme("light", folders), True)
    chosen = load_theme(name, folders)
    return PageThemes(chosen, _counterpart(chosen, folders), False)


def _counterpart(chosen: Theme, folders: Sequence[Path]) -> Theme:
    for dark, light in _COUNTERPARTS:
        for own, other in ((dark, light), (light, dark)):
            if chosen.name.endswith(own):
                try:
                    return load_theme(chosen.name.removesuffix(own) + other, folders)
                except ThemeError:
                    continue
    return load_theme("light" if chosen.dark else "dark", folders)


def theme_css(theme: Theme) -> str:
    shades = Shades.of(theme.colours, theme.dark)
    foreground = _rgb(shades.colours["foreground"], ASSUMED_LIGHT if theme.dark else ASSUMED_DARK)
    place = f"[data-theme={'dark' if theme.dark else 'light'}]"
    values = [f"color-scheme:{'dark' if theme.dark else 'light'}", f"--background:{_css(shades.ground)}"]
    values.append(f"--foreground:{_css(foreground)}")
    names = ("surface", "raised", "rule", "accent")
    values += [f"--{name}:{_css(_rgb(shades.colours[name], foreground))}" for name in names]
    for name, look in shades.looks(theme.looks).items():
        values += _variables(name.replace("_", "-"), look, foreground, shades.ground)
    rules = [f"{place}{{{';'.join(values)}}}"]
    for kind, look in shades.syntax(theme.syntax).items():
        colour = _text_colour(look, foreground, shades.ground)
        attributes = [_ATTRIBUTES[name] for name in look.attributes if name in _ATTRIBUTES]
        rules.append(f"{place} .k-{kind}{{{';'.join([f'color:{colour}', *attributes])}}}")
    return "\n".join(rules)


def _variables(name: str, look: Look, foreground: Rgb, ground: Rgb) -> Iterator[str]:
    if look.behind is not None:
        behind = _rgb(look.behind, ground)
        yield f"--{name}-behind:{_css(behind)}"
    else:
        behind = ground
    yield f"--t-{name}:{_text_colour(look, foreground, behind)}"


def _text_colour(look: Look, foreground: Rgb, behind: Rgb) -> str:
    colour = foreground if look.colour is None else _rgb(look.colour, foreground)
    is_ours = look.colour is None or look.colour.rgb is not None
    return _css(colour if is_ours else readable(colour, behind, _READABLE))


def _rgb(colour: Colour, default: Rgb) -> Rgb:
    if colour.rgb is not None:
        return colour.rgb
    return _ANSI[colour.ansi] if 0 <= colour.ansi < len(_ANSI) else default


def _css(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
