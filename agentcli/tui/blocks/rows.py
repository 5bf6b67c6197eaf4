"""Cut long text to rows, reading only the part that is shown.

Defines how folding counts hidden lines and how it reports them. Pure; any further styling is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.frozen import frozen
from agentcli.core.text.columns import hanging_indent
from agentcli.core.text.plural import counted
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.coloured import Coloured
from agentcli.tui.blocks.wrap import Run, clip, wrap
from agentcli.tui.theme.palette import Palette

MAX_ROWS = 4_000
"""Maximum number of rows of an expanded block. More would block the screen, and nobody reads them there."""
_CHARACTERS_PER_CELL = 4
"""Characters read per cell: some have no width, but a line of only those must not be read to its end."""


@frozen
class Rows:
    lines: list[BlockLine] = field(default_factory=list)
    hidden: int = 0
    opens: bool = False
    """Whether expanding shows more although no row is missing."""
    above: bool = False
    """Whether the hidden lines are before the rows instead of after them."""


def gutter(width: int, style: Style) -> list[Run]:
    if width >= 24:
        return [("  │ ", style)]
    return [("│ ", style)] if width >= 8 else []


def margin(width: int, cells: int = 2) -> list[Run]:
    return [(" " * cells, Style.null())] if width >= cells + 6 else []


def size(runs: Iterable[Run]) -> int:
    return sum(cell_len(text) for text, _style in runs)


def styled(text: str, start: int, end: int, style: Style | Coloured) -> list[Run]:
    """A part of a text as runs."""
    return style.runs(text, start, end) if isinstance(style, Coloured) else [(text[start:end], style)]


def head(
    text: str, width: int, rows: int, style: Style | Coloured, before: Sequence[Run] = (), *, in_columns: bool = False
) -> Rows:
    """The first rows. If only one more is left, it is included: a line about it would take as much room. `in_columns`:
    rows that continue a line begin below its last column."""
    text = text.rstrip("\n")
    if not text.strip():
        return Rows()
    lines: list[BlockLine] = []
    complete: list[int] = []
    most, place = characters(width, rows), 0
    while len(lines) <= rows + 1 and place <= len(text):
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        rest = _continued(text[place:end], width, before) if in_columns else before
        lines += wrap(styled(text, place, min(end, place + most), style), width, before, rest)
        if end - place <= most:
            complete.append(len(lines))
        place = end + 1
    return _cut(lines, complete, text.count("\n") + 1, rows)


def _continued(line: str, width: int, before: Sequence[Run]) -> Sequence[Run]:
    return [*before, (" " * hanging_indent(line, width - size(before)), Style.null())]


def tail(
    text: str, width: int, rows: int, style: Style | Coloured, before: Sequence[Run] = (), *, in_columns: bool = False
) -> Rows:
    text = text.rstrip("\n")
    if not text.strip():
        return Rows()
    parts: list[list[BlockLine]] = []
    complete: list[int] = []
    most, end, taken = characters(width, rows), len(text), 0
    while taken <= rows + 1 and end >= 0:
        start = text.rfind("\n", 0, end) + 1
        # Skip in whole steps: a start that moves with every character would wrap differently each time.
        skipped = max(0, (end - start) // most - 1) * most
        rest = _continued(text[start:end], width, before) if in_columns else before
        part = wrap(styled(text, start + skipped, end, style), width, before, rest)
        parts.append(part)
        taken += len(part)
        if not skipped:
            complete.append(taken)
        end = start - 1
    lines = [line for part in reversed(parts) for line in part]
    kept = _cut(lines[::-1], complete, text.count("\n") + 1, rows)
    return Rows(kept.lines[::-1], kept.hidden, above=True)


def folded(groups: Iterable[Sequence[BlockLine]], total: int, rows: int) -> Rows:
    """The first rows of groups, consumed only as far as shown. A group is a source line; `total` is their number."""
    lines: list[BlockLine] = []
    complete: list[int] = []
    for group in groups:
        lines += group
        complete.append(len(lines))
        if len(lines) > rows + 1:
            return _cut(lines, complete, total, rows)
    return Rows(lines)


def _cut(lines: list[BlockLine], complete: list[int], total: int, rows: int) -> Rows:
    """Cut the rows, at the end of a source line if there is one in the lower half."""
    if len(lines) <= rows + 1 and len(complete) == total:
        return Rows(lines)
    whole = [count for count in complete if count <= rows]
    end = whole[-1] if whole and whole[-1] > rows // 2 else rows
    return Rows(lines[:end], max(1, total - len(whole)))


def characters(width: int, rows: int) -> int:
    return max(width, 8) * (rows + 2) * _CHARACTERS_PER_CELL


def joined(rows: Rows, width: int, palette: Palette, before: Sequence[Run] = ()) -> list[BlockLine]:
    if not rows.hidden:
        return rows.lines
    text = f"… {counted(rows.hidden, 'more line')}{' above' if rows.above else ''}"
    key = " · Ctrl+O" if cell_len(text) + 9 <= width - size(before) else ""
    note = decoration([*before, (text, palette.muted), (key, palette.faint)], width)
    return [note, *rows.lines] if rows.above else [*rows.lines, note]


def decoration(runs: Sequence[Run], width: int) -> BlockLine:
    return BlockLine(clip(runs, max(1, width)).strip, "", 0, "")


def beside(lines: Iterable[BlockLine], before: Sequence[Run]) -> list[BlockLine]:
    if not before:
        return list(lines)
    segments = [Segment(text, style) for text, style in before]
    cells = size(before)
    return [
        BlockLine(
            Strip([*segments, *line.strip], cells + line.strip.cell_length), line.text, line.indent + cells, line.joint
        )
        for line in lines
    ]


def filled(line: BlockLine, width: int, style: Style) -> BlockLine:
    """Fill the row up to the width with the background of a style, if the style has one."""
    missing = width - line.strip.cell_length
    if missing <= 0 or not (style.bgcolor or style.reverse):
        return line
    return BlockLine(Strip([*line.strip, Segment(" " * missing, style)], width), line.text, line.indent, line.joint)


def shortened(text: str, cells: int) -> str:
    """Cut one line of text to `cells` cells, with an ellipsis if something was cut."""
    text = text[: max(0, cells) * _CHARACTERS_PER_CELL + 1]
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""
