"""The styles that blocks paint with, by meaning. Made from a theme; a block never names a colour itself.

Every meaning also reads without colour: blocks use signs and words beside the style.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.style import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    name: str = "dark"
    dark: bool = True
    colours: bool = True
    """False under NO_COLOR: styles then use bold, dim, italic, underline and reverse only."""

    text: Style = Style.parse("#d8dee9")
    muted: Style = Style.parse("#8b95a7")
    """Secondary text."""
    faint: Style = Style.parse("#5b6475")
    """Gutters, rules, line numbers."""
    accent: Style = Style.parse("#7fb4ff")
    user: Style = Style.parse("bold #e5e9f0")
    user_mark: Style = Style.parse("bold #7fb4ff")
    thinking: Style = Style.parse("italic #8b95a7")
    rule: Style = Style.parse("#3b4252")
    """Lines that only divide: around the prompt, across the transcript."""
    surface: Style = Style.parse("#d8dee9 on #1b1f27")
    """Text on what lies above the page: menus, dialogs, cards."""
    chip: Style = Style.parse("#9ecbff on #263145")
    """Something that stands for more than it shows: a paste, an image, a file."""

    heading: Style = Style.parse("bold #9ecbff")
    strong: Style = Style.parse("bold")
    emphasis: Style = Style.parse("italic")
    strike: Style = Style.parse("strike")
    code: Style = Style.parse("#e6c07b")
    """Inline code."""
    code_block: Style = Style.parse("#d8dee9 on #1f2430")
    link: Style = Style.parse("underline #7fb4ff")
    quote: Style = Style.parse("italic #8b95a7")
    bullet: Style = Style.parse("#7fb4ff")
    table: Style = Style.parse("#5b6475")

    tool: Style = Style.parse("bold #d8dee9")
    running: Style = Style.parse("#e6c07b")
    success: Style = Style.parse("#98c379")
    warning: Style = Style.parse("#e6c07b")
    error: Style = Style.parse("#f07178")
    info: Style = Style.parse("#8b95a7")

    added: Style = Style.parse("#c3e8a6 on #16301c")
    removed: Style = Style.parse("#f5b5ba on #3a1a1f")
    added_word: Style = Style.parse("bold #e6ffd8 on #22512c")
    removed_word: Style = Style.parse("bold #ffe1e3 on #64282f")
    hunk: Style = Style.parse("#7fb4ff")

    match: Style = Style.parse("#1f2430 on #e6c07b")
    match_current: Style = Style.parse("bold #1f2430 on #ffb454")
    selection: Style = Style.parse("on #33415e")

    syntax: Mapping[str, Style] = field(
        default_factory=lambda: {
            "keyword": Style.parse("#c792ea"),
            "string": Style.parse("#c3e88d"),
            "number": Style.parse("#f78c6c"),
            "comment": Style.parse("italic #697098"),
            "function": Style.parse("#82aaff"),
            "type": Style.parse("#ffcb6b"),
            "builtin": Style.parse("#89ddff"),
            "operator": Style.parse("#89ddff"),
            "name": Style.parse("#d8dee9"),
            "decorator": Style.parse("#82aaff"),
            "constant": Style.parse("#f78c6c"),
            "tag": Style.parse("#f07178"),
            "attribute": Style.parse("#ffcb6b"),
            "escape": Style.parse("#89ddff"),
            "added": Style.parse("#98c379"),
            "removed": Style.parse("#f07178"),
            "heading": Style.parse("bold #9ecbff"),
        }
    )
    """Styles of code by the kind of token; what is missing is `name`."""


def _without_colours() -> Palette:
    plain, dim, bold, reverse = Style(), Style(dim=True), Style(bold=True), Style(reverse=True)
    return Palette(
        name="plain",
        colours=False,
        text=plain,
        muted=dim,
        faint=dim,
        accent=bold,
        user=bold,
        user_mark=bold,
        thinking=Style(dim=True, italic=True),
        rule=dim,
        surface=plain,
        chip=reverse,
        heading=Style(bold=True, underline=True),
        code=bold,
        code_block=plain,
        link=Style(underline=True),
        quote=Style(italic=True),
        bullet=bold,
        table=dim,
        tool=bold,
        running=plain,
        success=plain,
        warning=bold,
        error=bold,
        info=dim,
        added=bold,
        removed=plain,
        added_word=Style(bold=True, underline=True),
        removed_word=Style(underline=True),
        hunk=Style(italic=True),
        match=reverse,
        match_current=Style(reverse=True, bold=True, underline=True),
        selection=reverse,
        syntax={"name": plain, "comment": dim, "keyword": bold, "heading": bold, "added": bold, "removed": plain},
    )


WITHOUT_COLOURS = _without_colours()
