"""Markdown that streams in, cut where a part of it is complete: what is printed cannot be changed any more.

A paragraph, list or table is complete when an empty line ends it and what follows is not indented (which would still
belong to it). Code in fences is complete line by line, so a long block of it need not be waited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from agentcli.core.frozen import frozen

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
LARGEST_BLOCK = 20_000
"""Characters after which a block is cut at a line's end all the same: parsing must not take longer and longer."""


@frozen
class Part:
    kind: Literal["block", "fence", "code"]
    """`block`: Markdown to be rendered. `fence`: a line that begins or ends code. `code`: a line of it."""
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

    def feed(self, text: str) -> Iterator[Part]:
        *whole, self._line = (self._line + text).split("\n")
        for each in whole:
            yield from self._take(each)

    def finish(self) -> Iterator[Part]:
        """The end: whatever is there is complete now."""
        if self._line:
            yield from self._take(self._line)
        yield from self._flush()
        self._line, self._fence = "", ""

    def _take(self, row: str) -> Iterator[Part]:
        fence = _FENCE.fullmatch(row)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
                yield Part("fence", row)
            else:
                yield Part("code", row)
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            yield from self._flush()
            self._fence = fence[1]
            yield Part("fence", row)
        else:
            yield from self._take_text(row)

    def _take_text(self, row: str) -> Iterator[Part]:
        if not row.strip():
            self._blank = bool(self._block)
        elif (self._blank and not row[0].isspace()) or self._size > LARGEST_BLOCK:
            yield from self._flush()
        if row.strip() or self._block:
            self._block.append(row)
            self._size += len(row) + 1
            self._blank = not row.strip()
        if _HEADING.match(row):
            yield from self._flush()

    def _flush(self) -> Iterator[Part]:
        text = "\n".join(self._block).rstrip()
        self._block, self._size, self._blank = [], 0, False
        if text:
            yield Part("block", text)
