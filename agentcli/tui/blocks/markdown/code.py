"""Code blocks: an edge line at the left, the background of `code_block`, and the language at the right of the first
row.

Copying gives the code exactly: edge, background and language are decoration.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.glyphs import width_of
from agentcli.tui.theme.palette import Palette

_EDGE = "▏"


def code_lines(rows: Sequence[Sequence[Run]], width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
    ground = palette.code_block
    edge = [*before, (_EDGE, ground + palette.faint)] if width >= 8 else before
    lines: list[BlockLine] = []
    for runs in rows:
        for line in wrap(runs, width, edge, edge):
            strip = line.strip
            missing = width - strip.cell_length
            if missing > 0:
                strip = Strip([*strip, Segment(" " * missing, ground)], width)
            lines.append(BlockLine(strip, line.text, line.indent, line.joint))
    return lines


def labelled(line: BlockLine, language: str, width: int, palette: Palette) -> BlockLine:
    """Add the name of the language at the right end of the first row, if there is room."""
    used = line.indent + width_of(line.text)
    cells = width_of(language)
    if not language or line.joint != "\n" or used + cells + 3 > width:
        return line
    ground = palette.code_block
    start = line.strip.crop(0, width - cells - 1)
    label = [Segment(language, ground + palette.faint), Segment(" ", ground)]
    return BlockLine(Strip([*start, *label], width), line.text, line.indent, line.joint)


def marked(line: BlockLine, mark: Sequence[Run]) -> BlockLine:
    """Replace the first cells of a row, for a code block that begins a list item or an answer."""
    cells = sum([width_of(text) for text, _style in mark])
    if not cells or cells > line.indent:
        return line
    segments = [Segment(text, style) for text, style in mark]
    strip = Strip([*segments, *line.strip.crop(cells)], line.strip.cell_length)
    return BlockLine(strip, line.text, line.indent, line.joint)
