"""Markdown as text for a terminal, by rich. Imported when there is some: rich and its parser take 100 ms."""

from __future__ import annotations

import re
from io import StringIO
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.theme import Theme

_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
"""Blanks at the end of a row only get in the way of copying."""
_THEME = Theme(
    {
        # No background of their own: the terminal may be light or dark.
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.block_quote": "dim",
        "markdown.link": "default",
        "markdown.link_url": "dim",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
    }
)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False, code_theme="ansi_dark")
        # HTML is text like any other: rich would leave it out, and with it whatever a model writes between tags.
        parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
        self.parsed = parser.parse(markup)


def rendered(text: str, width: int, colours: bool) -> str:
    """Whole lines. `text` holds no control sequences; links are written out, because what they say may be a lie."""
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=True,
        color_system="standard",
        no_color=not colours,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        theme=_THEME,
        _environ={},
    )
    console.print(_Markdown(text), end="")
    rows = _PADDING.sub(r"\1", out.getvalue())
    return rows.strip("\n") + "\n"
