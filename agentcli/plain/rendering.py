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
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")
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

_MARKS = re.compile(r"[*_~`<&\\]")
_MOST_BRACKETS = 300
_MOST_MARKS = 1_500
"""Beyond these, text is shown as it is."""


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


class Renderer:
    """Keeps what is slow to make: a parser and a console cost more than most paragraphs."""

    def __init__(self, *, colours: bool) -> None:
        # HTML is text like any other: rich would leave it out, and with it whatever a model writes between tags.
        self._parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
        self._markdown = _Markdown("", hyperlinks=False, code_theme="ansi_dark")
        self._console = Console(
            file=StringIO(),
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

    def render(self, text: str, width: int) -> str:
        """Whole lines. `text` holds no control sequences; links are written out, because what they say may be a lie."""
        parser = self._parser
        if text.count("[") > _MOST_BRACKETS or len(_MARKS.findall(text)) > _MOST_MARKS:
            # The parser tries every opening with every closing one: a text of nothing else would take minutes.
            parser = MarkdownIt("zero")
        self._markdown.parsed = parser.parse(text)
        self._console.file = out = StringIO()
        self._console.print(self._markdown, width=width, end="")
        rows = _PADDING.sub(r"\1", out.getvalue()).split("\n")
        shown = [place for place, row in enumerate(rows) if _LOOKS.sub("", row)]
        return "".join(f"{row}\n" for row in rows[shown[0] : shown[-1] + 1]) if shown else "\n"
