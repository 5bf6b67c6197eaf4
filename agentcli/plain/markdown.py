"""Markdown that streams in, cut where a part of it is complete: what is printed cannot be changed any more.

A paragraph or table is complete when an empty line ends it and what follows is not indented (which would still belong
to it), an item of a list when the next one begins. Code in fences is complete line by line. Of a paragraph that is
still being written the beginning can be had, as long as nothing that follows can change how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from agentcli.core.frozen import frozen

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_SPECIAL = re.compile(r"\s|[-*+>#=|~`:]|\d{1,9}[.)]")
"""Beginnings of what may be no paragraph."""
_UNSURE = re.compile(r"[\[\]<>\\&|!]")
"""In a paragraph: links, tags, entities, tables. What they are is only known at their end."""
_MARKS = re.compile(r"\*+|_+|`+|~+")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SURE = 20
"""Characters of a paragraph after which it can be told from everything else."""
LARGEST_BLOCK = 20_000
"""Characters after which a block is cut at a line's end all the same: parsing must not take longer and longer."""

LONGEST_LINE = 8_000
"""Characters of a line that are rendered together."""


@frozen
class MarkdownPart:
    kind: Literal["block", "item", "fence", "code"]
    """`block`: Markdown to render; `item`: one of a list; `fence`: begins or ends code; `code`: a line of it."""
    text: str


class MarkdownCutter:
    def __init__(self) -> None:
        self._line = ""
        """The beginning of a line that has not ended."""
        self._block: list[str] = []
        self._size = 0
        self._blank = False
        """The last line of the block was an empty one."""
        self._fence = ""
        """What ends the code that is open."""

    def feed(self, text: str) -> Iterator[MarkdownPart]:
        *whole, self._line = (self._line + text).split("\n")
        for each in whole:
            yield from self._take(each)
        while len(self._line) > LONGEST_LINE:
            # A line that never ends is shown in pieces, or each word of it would cost more than the one before.
            cut = self._line.rfind(" ", LONGEST_LINE // 2, LONGEST_LINE) + 1 or LONGEST_LINE
            row, self._line = self._line[:cut], self._line[cut:]
            yield from self._take(row)
            yield from self._flush()

    @property
    def paragraph(self) -> str:
        """The beginning of the open paragraph, up to its last whole word, if its look is certain; else ""."""
        if self._size + len(self._line) > LONGEST_LINE:
            return ""
        text = "\n".join((*self._block, self._line))
        if self._fence or self._blank or len(text) < _SURE or _SPECIAL.match(text) or _UNSURE.search(text):
            return ""
        text = text[: max(text.rfind(" "), text.rfind("\n"), 0)]
        # What is open (`**bo`) may still be closed, and one at the end may get longer.
        return text if _all_closed(text) else ""

    def finish(self) -> Iterator[MarkdownPart]:
        """The end: whatever is there is complete now."""
        if self._line:
            yield from self._take(self._line)
        yield from self._flush()
        self._line, self._fence = "", ""

    def _take(self, row: str) -> Iterator[MarkdownPart]:
        fence = _FENCE.fullmatch(row)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
                yield MarkdownPart("fence", row)
            else:
                yield MarkdownPart("code", row)
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            yield from self._flush()
            self._fence = fence[1]
            yield MarkdownPart("fence", row)
        else:
            yield from self._take_text(row)

    def _take_text(self, row: str) -> Iterator[MarkdownPart]:
        if not row.strip():
            self._blank = bool(self._block)
        elif (self._blank and not row[0].isspace()) or self._size > LARGEST_BLOCK or self._next_item(row):
            yield from self._flush()
        if row.strip() or self._block:
            self._block.append(row)
            self._size += len(row) + 1
            self._blank = not row.strip()
        if _HEADING.match(row):
            yield from self._flush()

    def _flush(self) -> Iterator[MarkdownPart]:
        text = "\n".join(self._block).rstrip()
        self._block, self._size, self._blank = [], 0, False
        if text:
            yield MarkdownPart("item" if _ITEM.match(text) else "block", text)

    def _next_item(self, row: str) -> bool:
        return bool(self._block) and bool(_ITEM.match(self._block[0])) and bool(_ITEM.match(row))


def _all_closed(text: str) -> bool:
    """Whether each mark that opens is closed, one after the other: of two that open (`*i *i`) either may be closed
    later."""
    open_marks: set[str] = set()
    for found in _MARKS.finditer(text):
        mark = found[0]
        opens, closes = (
            text[found.end() : found.end() + 1].strip(),
            text[max(found.start() - 1, 0) : found.start()].strip(),
        )
        if mark in open_marks and closes:
            open_marks.remove(mark)
        elif mark not in open_marks and opens:
            open_marks.add(mark)
        else:
            return False
    return not open_marks
