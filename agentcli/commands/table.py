"""Tables of aligned columns."""

from __future__ import annotations

from collections.abc import Container, Sequence

from agentcli.core.text.columns import cell_count, cut

WIDTH = 76
"""Default width in columns: the usual 80, less the left margin and the scroll bar."""
GAP = 2


def table(rows: Sequence[Sequence[str]], *, left: Container[int] = (0,), text_width: int = 0) -> str:
    """Aligned columns: those of the numbers `left` to the left, others to the right. `text_width`: not 0 if the last
    column is text, which is cut where the table is so wide."""
    widths = [max(map(cell_count, column)) for column in zip(*rows, strict=True)]
    room = max(1, text_width - sum(widths[:-1]) - GAP * (len(widths) - 1))
    lines = []
    for row in rows:
        columns = []
        for place, (text, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - cell_count(text))
            columns.append(text + blank if place in left else blank + text)
        if text_width:
            columns[-1] = cut(row[-1], room)
        lines.append((" " * GAP).join(columns).rstrip())
    return "\n".join(lines)


def width_of(text: str) -> int:
    """Columns of the widest line."""
    return max(map(cell_count, text.splitlines()), default=0)
