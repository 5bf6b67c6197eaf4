"""Tables of aligned columns."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.text.columns import cell_count, cut

WIDTH = 76
"""Default width in columns: the usual 80, less the left margin and the scroll bar."""
GAP = 2


def table(rows: Sequence[Sequence[str]], *, last_is_text: bool = False, width: int = 0) -> str:
    """Aligned columns: the first left, others right, a last one of text left and cut at `width` (0: not cut)."""
    widths = [max(map(cell_count, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (size - cell_count(text)) for text, size in zip(row, widths, strict=True)]
        columns = [row[0] + blanks[0], *(blank + text for blank, text in zip(blanks[1:], row[1:], strict=True))]
        if last_is_text:
            room = width - sum(widths[:-1]) - GAP * (len(widths) - 1)
            columns[-1] = cut(row[-1], max(1, room)) if width else row[-1]
        lines.append((" " * GAP).join(columns).rstrip())
    return "\n".join(lines)


def width_of(text: str) -> int:
    """Columns of the widest line."""
    return max(map(cell_count, text.splitlines()), default=0)
