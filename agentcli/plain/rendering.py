"""Render Markdown for a terminal with rich. Imported on first use: rich and its parser take 100 ms."""

from __future__ import annotations

import re
from io import StringIO
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.theme import Theme

from agentcli.core.text.markdown_names import keep_name

_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
"""Trailing spaces of a row, which would only be in the way when copying."""
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")
_THEME = Theme(
    {
        # No backgrounds: the terminal may be light or dark.
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
_MAX_BRACKETS = 300
_MAX_MARKS = 1_500
"""With more of either, text is shown without rendering."""


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


class Renderer:
    """Renders Markdown. Keeps its parser and its console, which cost more to make than most paragraphs to render."""

    def __init__(self, *, colours: bool) -> None:
        # Treat HTML as text: rich would drop it, and with it anything that a model writes between tags.
        self._parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
        self._parser.inline.ruler.before("emphasis", "name", keep_name)
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
        """Render to whole lines. `text` has no control sequences. Links show their target: link text may deceive."""
        parser = self._parser
        if text.count("[") > _MAX_BRACKETS or len(_MARKS.findall(text)) > _MAX_MARKS:
            # The parser tries every opening with every closing mark: text of only marks would take minutes.
            parser = MarkdownIt("zero")
        self._markdown.parsed = parser.parse(text)
        self._console.file = out = StringIO()
        self._console.print(self._markdown, width=width, end="")
        rows = _PADDING.sub(r"\1", out.getvalue()).split("\n")
        shown = [place for place, row in enumerate(rows) if _LOOKS.sub("", row)]
        return "".join(f"{row}\n" for row in rows[shown[0] : shown[-1] + 1]) if shown else "\n"
