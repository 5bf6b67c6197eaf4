"""Rows of a unified diff, in one column or with old and new lines side by side.

Pure, and robust against text that is not a diff. Copying a row gives the code without line numbers and signs; of a
side-by-side row it gives the new line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from agentcli.core.text.plaintext import TAB
from agentcli.core.text.unified_diff import Hunk
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.diff.paint import PaintedHunk, base_style, partners, stretches
from agentcli.tui.blocks.rows import decoration, filled
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.theme.palette import Palette

SIDE_BY_SIDE_FROM = 110
MIN_WIDTH_BESIDE = 48
BETWEEN = " │ "


def fits_side_by_side(hunks: Sequence[Hunk], width: int) -> bool:
    """Whether two columns are better than one: a line was replaced, and no line would have to be wrapped."""
    if width < SIDE_BY_SIDE_FROM:
        return False
    room = (width - len(BETWEEN)) // 2 - digits_of(hunks) - 3
    lines = [line for hunk in hunks for line in hunk.lines]
    replaced = any(one.sign == "-" and other.sign == "+" for one, other in pairwise(lines))
    return replaced and all(_cells(line.text, room) <= room for line in lines)


def diff_groups(
    hunks: Sequence[Hunk], width: int, palette: Palette, path: str = "", *, two_columns: bool = False
) -> Iterator[list[BlockLine]]:
    """Yield the rows of each diff line, in two columns if there is room. Two lines side by side yield their rows and
    one empty group, so that the number of groups is the number of lines."""
    two_columns = two_columns and width >= MIN_WIDTH_BESIDE
    digits, quiet = digits_of(hunks), not two_columns and is_new_file(hunks)
    left = (width - len(BETWEEN)) // 2
    right = width - len(BETWEEN) - left
    for place, hunk in enumerate(hunks):
        above = _headings(hunks, place, width, palette)
        painted = PaintedHunk(hunk, palette, path, quiet=quiet)
        one_column = ((index, index) for index in range(len(hunk.lines)))
        for old, new in beside_places(hunk) if two_columns else one_column:
            if old is not None and not (two_columns and hunk.lines[old].sign):
                rows = line_rows(painted, old, width, palette, digits, quiet=quiet)
            else:
                before = [] if old is None else line_rows(painted, old, left, palette, digits, old=True)
                after = [] if new is None else line_rows(painted, new, right, palette, digits)
                rows = merged(before, after, left, right, palette)
            yield [*above, *rows]
            above = []
            if old is not None and new is not None and old != new:
                yield []


def digits_of(hunks: Sequence[Hunk]) -> int:
    numbers = [max(line.old or 0, line.new or 0) for hunk in hunks for line in hunk.lines]
    return len(str(max(numbers, default=0)))


def is_new_file(hunks: Sequence[Hunk]) -> bool:
    return len(hunks) == 1 and hunks[0].new_start == 1 and all(line.sign in ("+", "") for line in hunks[0].lines)


def _cells(text: str, room: int) -> int:
    return room + 1 if len(text) > 2 * room else cell_len(text.expandtabs(TAB))


def columns_of(width: int, digits: int, sign: str) -> int:
    """Cells before the code of a line: number, sign and blanks, as far as there is room."""
    columns = digits + 3
    if not sign:
        return columns if width >= columns + 2 else 0
    return columns if width >= columns + 4 else 1 if width >= 3 else 0


def line_rows(
    painted: PaintedHunk,
    index: int,
    width: int,
    palette: Palette,
    digits: int,
    *,
    old: bool = False,
    quiet: bool = False,
) -> list[BlockLine]:
    line = painted.lines[index]
    if not line.sign:
        return wrap([(line.text, palette.muted)], width, [(" " * columns_of(width, digits, ""), palette.muted)])
    base = base_style(line.sign, palette)
    columns = f"{(line.old if old or line.sign == '-' else line.new) or '':>{digits}} {line.sign} "
    style = base if line.sign in "+-" else palette.faint
    first: list[Run] = []
    if width >= len(columns) + 4:
        # If only the columns are coloured, the blank after the sign belongs to the code.
        first = [(columns[:-1], style), (" ", palette.text if quiet else style)]
    elif width >= 3:
        first = [(line.sign, style)]
    rest = [(" " * cell_len(text), each) for text, each in first]
    rows = wrap(painted.runs(index), width, first, rest)
    return rows if quiet else [filled(row, width, base) for row in rows]


def _headings(hunks: Sequence[Hunk], place: int, width: int, palette: Palette) -> list[BlockLine]:
    hunk, before = hunks[place], hunks[place - 1] if place else None
    if hunk.path and (before is None or hunk.path != before.path):
        return wrap([(hunk.path, palette.strong + palette.hunk)], width)
    if before is None:
        return []
    return [decoration([("⋯ ", palette.hunk), (hunk.heading[:500], palette.faint)], width)]


def beside_places(hunk: Hunk) -> Iterator[tuple[int | None, int | None]]:
    for kind, removed, added in stretches(hunk.lines):
        if kind == "-":
            yield from partners(hunk.lines, removed, added)
        else:
            yield removed[0], removed[0]


def merged(old: list[BlockLine], new: list[BlockLine], left: int, right: int, palette: Palette) -> list[BlockLine]:
    bar = Segment(BETWEEN, palette.faint)
    indent = left + len(BETWEEN)
    lines: list[BlockLine] = []
    for index in range(max(len(old), len(new))):
        before = old[index].strip if index < len(old) else Strip([])
        segments = [*before.adjust_cell_length(left), bar]
        if index < len(new):
            after = new[index]
            strip = Strip([*segments, *after.strip.adjust_cell_length(right)])
            lines.append(BlockLine(strip, after.text, after.indent + indent, after.joint))
        else:
            lines.append(BlockLine(Strip(segments), "", indent, ""))
    return lines
