"""Lines that the user sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.core.text.plural import counted
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.rows import MAX_ROWS, Rows, decoration, filled, head, joined
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.model import PromptItem
from agentcli.tui.theme.palette import Palette

_PROMPT_ROWS = 12
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?=\s|\Z)")
_PICTURE = re.compile(r"\[(?:image|picture)\b", re.IGNORECASE)


class PromptBlock(Block):
    item: PromptItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        mark = [("❯ ", palette.user_mark)] if width >= 4 else []
        blank = [("  ", palette.user)] if mark else []
        rows = self._rows(width, palette, blank)
        self.foldable = self.expanded or bool(rows.hidden)
        lines = joined(rows, width, palette, blank)
        if lines:
            start = wrap(_first_line(lines[0].text, palette), width, mark, blank)[0]
            lines = [BlockLine(start.strip, lines[0].text, lines[0].indent, lines[0].joint), *lines[1:]]
        if self.item.images and not _PICTURE.search(self.item.text[:10_000]):
            count = counted(self.item.images, "picture")
            lines.append(decoration([*(blank if lines else mark), (f"+ {count}", palette.muted)], width))
        return [filled(line, width, palette.user) for line in lines or [decoration(mark, width)]]

    def _rows(self, width: int, palette: Palette, blank: Sequence[Run]) -> Rows:
        most = MAX_ROWS if self.expanded else _PROMPT_ROWS
        return head(self.item.text.strip("\n"), width, most, palette.user, blank)


def _first_line(text: str, palette: Palette) -> list[Run]:
    if command := _COMMAND.match(text):
        return [(command.group(), palette.user + palette.accent), (text[command.end() :], palette.user)]
    if text.startswith("!"):
        return [("!", palette.user + palette.running), (text[1:], palette.user + palette.code)]
    return [(text, palette.user)]
