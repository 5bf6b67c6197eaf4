"""Change one cell in the text of a notebook and keep every other byte. Pure.

Writing the parsed notebook again would change order, indentation and escapes, and make the diff unreadable. So the
position of the cell in the text is found, and only that part is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@frozen
class Cells:
    """Positions of the cells in the text: the brackets of their list, and each cell from brace to brace."""

    text: str
    start: int
    """Index just after the opening bracket."""
    stop: int
    """Index of the closing bracket."""
    spans: tuple[tuple[int, int], ...]

    def replaced(self, index: int, cell: Json) -> str:
        start, stop = self.spans[index]
        return self.text[:start] + self._written(cell, self.text[start:stop]) + self.text[stop:]

    def without(self, index: int) -> str:
        start, stop = self.spans[index]
        if index + 1 < len(self.spans):
            return self.text[:start] + self.text[self.spans[index + 1][0] :]
        if index:
            return self.text[: self.spans[index - 1][1]] + self.text[stop:]
        return self.text[: self.start] + self.text[self.stop :]

    def with_inserted(self, index: int, cell: Json) -> str:
        model = self.text[slice(*self.spans[0])] if self.spans else self.text
        written = self._written(cell, model)
        if not self.spans:
            indent, newline = self._style()
            around = (f"{newline}{indent * 2}", f"{newline}{indent}") if indent else ("", "")
            return self.text[: self.start] + around[0] + written + around[1] + self.text[self.stop :]
        if index < len(self.spans):
            at = self.spans[index][0]
            return self.text[:at] + written + self._between() + self.text[at:]
        at = self.spans[-1][1]
        return self.text[:at] + self._between() + written + self.text[at:]

    def _between(self) -> str:
        """The comma and white space between two cells."""
        if len(self.spans) > 1:
            return self.text[self.spans[0][1] : self.spans[1][0]]
        return "," + self.text[self.start : self.spans[0][0]]

    def _style(self) -> tuple[str, str]:
        """One indentation step (empty: everything on one line) and the line ending."""
        found = re.match(r'\s*\{(\r?\n)([ \t]+)"', self.text)
        return (found[2], found[1]) if found else ("", "\n")

    def _written(self, cell: Json, model: str) -> str:
        indent, newline = self._style()
        escaped = self.text.isascii() and "\\u" in self.text
        if not indent:
            separators = (", ", ": ") if '": ' in model else (",", ":")
            return json.dumps(cell, ensure_ascii=escaped, separators=separators)
        lines = json.dumps(cell, ensure_ascii=escaped, indent=indent).split("\n")
        return f"{newline}{indent * 2}".join(lines)


def find_cells(text: str) -> Cells | None:
    """Locate the cells; None if the text is not a JSON object with a list of cells. Never raises."""
    try:
        for name, start in _members(text, _blanks(text, 0)):
            if name == "cells" and text[start] == "[":
                spans = tuple(_items(text, start))
                stop = _blanks(text, spans[-1][1] if spans else start + 1)
                return Cells(text, start + 1, stop, spans)
    except (ValueError, IndexError, RecursionError):
        pass
    return None


def _blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Names of the members of the object at `at`, each with the index of its value."""
    if text[at] != "{":
        return
    at = _blanks(text, at + 1)
    while text[at] != "}":
        name, at = _value(text, at)
        at = _blanks(text, at)
        if text[at] != ":":
            raise ValueError(at)
        start = _blanks(text, at + 1)
        yield str(name), start
        at = _next(text, _value(text, start)[1])


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _blanks(text, at + 1)
    while text[at] != "]":
        stop = _value(text, at)[1]
        yield at, stop
        at = _next(text, stop)


def _next(text: str, at: int) -> int:
    at = _blanks(text, at)
    return _blanks(text, at + 1) if text[at] == "," else at
