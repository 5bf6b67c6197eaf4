"""Split streamed Markdown into complete parts, because printed output cannot be changed later.

A paragraph or table is complete when an empty line follows and the next line is not indented (it would still belong to
it); a list item when the next one begins; fenced code line by line. The beginning of an unfinished paragraph is
available as long as no later text can change how it renders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from agentcli.core.frozen import frozen

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_SPECIAL = re.compile(r"\s|[-*+>#=|~`:]|\d{1,9}[.)]")
"""Line beginnings that may be something other than a paragraph."""
_UNSURE = re.compile(r"[\[\]<>\\&|!]")
"""Characters of links, tags, entities and tables, whose rendering is only known when they are complete."""
_MARKS = re.compile(r"\*+|_+|`+|~+")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SURE = 20
"""Characters after which a paragraph is certain to be one."""
MAX_BLOCK = 20_000
"""Characters after which an incomplete block is cut at the next line end, to bound the parsing time."""

MAX_LINE = 8_000
"""Most characters of one line that are rendered together."""


@frozen
class MarkdownPart:
    kind: Literal["block", "item", "fence", "code"]
    """`block`: Markdown to render; `item`: a list item; `fence`: a line that begins or ends code; `code`: a line of
    code."""
    text: str


class MarkdownCutter:
    def __init__(self) -> None:
        self._line = ""
        """The last, incomplete line."""
        self._block: list[str] = []
        self._size = 0
        self._blank = False
        """Whether the last line of the block is empty."""
        self._fence = ""
        """The fence that closes the open code block; "" outside of code."""

    def feed(self, text: str) -> Iterator[MarkdownPart]:
        *whole, self._line = (self._line + text).split("\n")
        for each in whole:
            yield from self._take(each)
        while len(self._line) > MAX_LINE:
            # Cut an endless line into pieces; otherwise each further word would cost more than the last.
            cut = self._line.rfind(" ", MAX_LINE // 2, MAX_LINE) + 1 or MAX_LINE
            row, self._line = self._line[:cut], self._line[cut:]
            yield from self._take(row)
            yield from self._flush()

    @property
    def paragraph(self) -> str:
        """The open paragraph up to its last whole word, if its rendering is certain; else ""."""
        if self._size + len(self._line) > MAX_LINE:
            return ""
        text = "\n".join((*self._block, self._line))
        if self._fence or self._blank or len(text) < _SURE or _SPECIAL.match(text) or _UNSURE.search(text):
            return ""
        text = text[: max(text.rfind(" "), text.rfind("\n"), 0)]
        # An open mark (`**bo`) may still be closed, and a mark at the end may still grow.
        return text if _all_closed(text) else ""

    def finish(self) -> Iterator[MarkdownPart]:
        """End the text and yield what is left as complete parts."""
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
        elif (self._blank and not row[0].isspace()) or self._size > MAX_BLOCK or self._next_item(row):
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
    """Whether every opening mark is closed before the same mark opens again: if two are open (`*i *i`), either may be
    closed later."""
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
