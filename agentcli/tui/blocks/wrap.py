"""Runs of styled text wrapped into lines: the one place where text becomes cells.

Whatever control character still comes here is replaced by a symbol, so nothing that a terminal would obey can be in a
strip. Widths are those of Rich, which the compositor counts with too.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.plaintext import visible_text
from agentcli.tui.blocks.base import Line

Run = tuple[str, Style]
TAB = 4


def wrap(runs: Sequence[Run], width: int, first: Sequence[Run] = (), rest: Sequence[Run] | None = None) -> list[Line]:
    """Wrap at blanks; a word that is wider than a line is cut. Line breaks in the text break lines.

    `first` stands before the first line and `rest` (default: blanks of the same width) before all others; both are
    decoration, which copying leaves out.
    """
    prefix = list(first)
    indent = sum(cell_len(text) for text, _style in prefix)
    following = [(" " * indent, Style.null())] if rest is None else list(rest)
    room = max(1, width - indent)
    lines: list[Line] = []

    def close(row: list[Run], joint: str) -> None:
        before = prefix if not lines else following
        segments = [Segment(text, style) for text, style in (*before, *row) if text]
        strip = Strip(segments).crop(0, max(1, width))
        lines.append(Line(strip, "".join(text for text, _style in row), indent, joint))

    row: list[Run] = []
    used = 0
    for text, style in runs:
        for number, part in enumerate(visible_text(text).expandtabs(TAB).split("\n")):
            if number:
                close(row, "\n")
                row, used = [], 0
            for word in _words(part):
                size = cell_len(word)
                if used and used + size > room:
                    close(row, "" if not word.strip() else "")
                    row, used = [], 0
                    if not word.strip():
                        continue
                for piece in chop_cells(word, room) if size > room else [word]:
                    if used and used + cell_len(piece) > room:
                        close(row, "")
                        row, used = [], 0
                    row.append((piece, style))
                    used += cell_len(piece)
    close(row, "\n")
    return lines


def _words(text: str) -> list[str]:
    words: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if character == " " and place + 1 < len(text) and text[place + 1] != " ":
            words.append(text[start : place + 1])
            start = place + 1
    words.append(text[start:])
    return [word for word in words if word]
