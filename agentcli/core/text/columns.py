"""Text in columns, such as a list of names with a description each."""

from __future__ import annotations

import re

_COLUMNS = re.compile(r" *(?:(?:→|[-•*]|\d+\.) +)?(?:\S+(?: \S+)*? {2,}(?=\S)){0,3}")


def hanging_indent(line: str, width: int) -> int:
    """Cells before the last column of a line, where the rows that continue it begin when it is wrapped to `width`.

    The columns before take half of the width at most; otherwise only the line's own indentation is kept, or nothing."""
    found = _COLUMNS.match(line[: width // 2 + 1])
    columns = found.end() if found else 0
    own = len(line) - len(line.lstrip(" "))
    return next((cells for cells in (columns, own) if cells <= width // 2), 0)
