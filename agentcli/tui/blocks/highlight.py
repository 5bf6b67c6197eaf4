"""Syntax highlighting: code as runs of styled text, line by line, including code that is still growing.

Pygments is imported at the first use, one language at a time (5 to 50 ms each). `warm` does that in a thread, and
`is_ready` tells whether highlighting now would block. Only built-in lexer names are looked up: for other names Pygments
would search all installed packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.style import Style

from agentcli.history.export.code_tokens import token_lines
from agentcli.history.export.code_tokens import warm as warm_language
from agentcli.tui.blocks.base import Run
from agentcli.tui.theme.palette import Palette

COMMON = ("python", "bash", "javascript", "typescript", "json", "diff", "html", "yaml", "toml", "sql", "go", "rust")
"""Languages common in answers, the most likely first."""

_MAX_LEXED_TWICE = 12_000
"""Size up to which a finished block is lexed again as a whole, because some patterns span lines."""
_WINDOW = 2_000
"""Characters of growing code that are lexed again at every call: 3 ms."""
_STATEMENT = re.compile(r"\n\n(?=\S)")
_MULTILINE_COMMENTS = (("/*", "*/"), ("<!--", "-->"))


def highlight(code: str, language: str, palette: Palette, base: Style | None = None) -> list[list[Run]]:
    """Runs of every line, in the palette's styles on `base`. Unknown or too long code stays plain. Never raises."""
    found = token_lines(code, language)
    if found is None:
        ground = palette.syntax.get("name", palette.text) if base is None else base
        return [[(line, ground)] if line else [] for line in code.split("\n")]
    under = Style.null() if base is None else base
    styles = {kind: under + style for kind, style in palette.syntax.items()}
    name = styles.get("name", under + palette.text)
    return [[(text, styles.get(kind, name)) for text, kind in line] for line in found]


def warm(languages: Iterable[str] = COMMON) -> None:
    """Load languages. Run it in a thread: it does not touch the screen."""
    for language in languages:
        warm_language(language)


class Highlighter:
    """Highlights growing code. The last lines are lexed again at every call; lines before them are settled, up to a
    place where a statement begins, at which a lexer can start as at the beginning of a file."""

    def __init__(self, language: str, palette: Palette, base: Style) -> None:
        self._language = language
        self._palette = palette
        self._base = base
        self._open = ""
        """Complete lines that are not settled."""

    def feed(self, lines: str) -> list[list[Run]]:
        """Add complete lines. Return the lines that are settled now."""
        self._open += lines
        if len(self._open) <= _WINDOW:
            return []
        starts = [found.end() for found in _STATEMENT.finditer(self._open)]
        end = starts[-1] if starts else len(self._open) if len(self._open) > 3 * _WINDOW else 0
        settled, self._open = self._open[:end], self._open[end:]
        return highlight(settled[:-1], self._language, self._palette, self._base) if settled else []

    def open_rows(self, open_line: str) -> list[list[Run]]:
        """Return the lines after the settled ones in their current state; the open line is the last."""
        code = self._open + open_line
        # Most lexers match a comment as a whole.
        end = next((end for begin, end in _MULTILINE_COMMENTS if code.rfind(begin) > code.rfind(end)), "")
        rows = highlight(code + end, self._language, self._palette, self._base)
        _cut_end(rows[-1], len(end))
        return rows


def _cut_end(row: list[Run], count: int) -> None:
    while count and row:
        text, style = row.pop()
        if len(text) > count:
            row.append((text[:-count], style))
        count -= min(count, len(text))


def can_lex_whole(code: str) -> bool:
    return len(code) <= _MAX_LEXED_TWICE
