"""Tables: natural column widths if they fit, else narrower columns with wrapped cells, else one field per line.

Rows are copied with `|` and `-` for the lines, so that the copy is valid Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.format import counted
from agentcli.tui.blocks.base import BlockLine, Run, wrap
from agentcli.tui.glyphs import clean, width_of
from agentcli.tui.theme.palette import Palette

Cell = Sequence[Run]
_MIN_WIDTH = 6
"""Minimum width of a column in cells; below it the table is shown as fields."""
_BETWEEN = 3
MAX_COLUMNS = 60
"""Maximum number of columns shown; no screen has room for more, and a longer list of fields is unreadable."""


@dataclass(frozen=True, slots=True)
class Table:
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    aligns: Sequence[str]
    left_out: int = 0


def table_lines(table: Table, width: int, palette: Palette) -> list[BlockLine]:
    lines = _table_lines(table, width, palette)
    if table.left_out:
        note = f"… {counted(table.left_out, 'more column')}"
        lines += [BlockLine(line.strip, "", 0, "") for line in wrap([(note, palette.muted)], width)]
    return lines


def _table_lines(table: Table, width: int, palette: Palette) -> list[BlockLine]:
    natural = _natural(table)
    if not natural:
        return []
    widths = _fit(natural, width - _BETWEEN * (len(natural) - 1))
    if widths is None:
        return _fields(table, width, palette)
    rows = [_row(row, table.aligns, widths, palette) for row in table.rows]
    lines = _row(table.head, table.aligns, widths, palette)
    lines.append(_rule(widths, palette))
    tall = any(len(row) > 1 for row in rows)
    for number, row in enumerate(rows):
        if tall and number:
            lines.append(_rule(widths, palette, copied=False))
        lines += row
    return lines


def _natural(table: Table) -> list[int]:
    widths = [0] * len(table.aligns)
    for row in (table.head, *table.rows):
        for column, cell in enumerate(row[: len(widths)]):
            widths[column] = max(widths[column], _cell_width(cell))
    return [max(1, cells) for cells in widths]


def _cell_width(cell: Cell) -> int:
    text = clean("".join([text for text, _style in cell]))
    return max(map(width_of, text.split("\n"))) if text else 0


def _fit(natural: Sequence[int], room: int) -> list[int] | None:
    """Shrink the widest columns first, down to a common width; None if that is too narrow to read."""
    if sum(natural) <= room:
        return list(natural)
    shared = next((most for most in range(room, _MIN_WIDTH - 1, -1) if _total(natural, most) <= room), 0)
    return [min(cells, shared) for cells in natural] if shared else None


def _total(natural: Sequence[int], most: int) -> int:
    return sum(min(cells, most) for cells in natural)


def _row(cells: Sequence[Cell], aligns: Sequence[str], widths: Sequence[int], palette: Palette) -> list[BlockLine]:
    columns = [wrap(cells[number] if number < len(cells) else (), size) for number, size in enumerate(widths)]
    lines = []
    for height in range(max(map(len, columns))):
        segments: list[Segment] = []
        copied = ""
        for number, column in enumerate(columns):
            strip = column[height].strip if height < len(column) else Strip([], 0)
            before, after = _blanks(widths[number] - strip.cell_length, aligns[number])
            if number:
                segments.append(Segment(" │ ", palette.table))
                copied += " | "
            segments += [Segment(" " * before, Style.null()), *strip, Segment(" " * after, Style.null())]
            copied += " " * before + strip.text + " " * after
        total = sum(widths) + _BETWEEN * (len(widths) - 1)
        lines.append(BlockLine(Strip([segment for segment in segments if segment.text], total), copied.rstrip()))
    return lines


def _blanks(missing: int, align: str) -> tuple[int, int]:
    if align == "right":
        return missing, 0
    if align == "center":
        return missing // 2, missing - missing // 2
    return 0, missing


def _rule(widths: Sequence[int], palette: Palette, *, copied: bool = True) -> BlockLine:
    text = "─┼─".join(["─" * size for size in widths])
    source = text.replace("─", "-").replace("┼", "|")
    return BlockLine(
        Strip([Segment(text, palette.table)], len(text)), source if copied else "", 0, "\n" if copied else ""
    )


def _fields(table: Table, width: int, palette: Palette) -> list[BlockLine]:
    """Show each row as `header: value` lines, with a rule between rows."""
    lines: list[BlockLine] = []
    for number, row in enumerate(table.rows):
        if number:
            rule = "─" * min(width, 8)
            lines.append(BlockLine(Strip([Segment(rule, palette.table)], len(rule))))
        for column, cell in enumerate(row):
            label = list(table.head[column]) if column < len(table.head) else []
            named: list[Run] = [*label, (": ", palette.muted)] if label else []
            lines += wrap([*named, *cell], width)
    return lines or wrap([run for cell in table.head for run in (*cell, (" ", palette.muted))], width)
