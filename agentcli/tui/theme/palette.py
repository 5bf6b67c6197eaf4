"""Styles that blocks paint with, named by meaning. Made from a theme; blocks never name colours themselves.

Every meaning is also readable without colour: blocks use signs and words besides the style.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.tui.theme.colours import parse_look


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


def _named_looks(looks: Mapping[str, str]) -> dict[str, Any]:
    return {name: _look(look) for look, names in looks.items() for name in names.split()}


WITHOUT_COLOURS = Palette(name="plain", colours=False, syntax=_named_looks(_PLAIN_SYNTAX), **_named_looks(_PLAIN_LOOKS))
