"""What the model thought: its end while it goes on, one line when it is over."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.tui import wording
from agentcli.tui.blocks.base import Block, Line
from agentcli.tui.blocks.rows import MOST_ROWS, head, joined, margin, tail
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.model import Item, ThinkingItem
from agentcli.tui.palette import Palette

_ROWS = 6


class ThinkingBlock(Block):
    item: ThinkingItem

    def __init__(self, item: ThinkingItem) -> None:
        super().__init__(item)
        self._text = item.text

    def grow(self, text: str) -> None:
        self._text += text

    def replace(self, item: Item) -> None:
        super().replace(item)
        # An interruption brings an item without text: what was seen stays.
        self._text = self.item.text or self._text

    @property
    def source(self) -> str:
        return self._text

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        seconds = self.item.seconds
        has_text = bool(self._text.strip())
        self.foldable = has_text
        before = margin(width)
        if seconds is None and not self.expanded:
            # Without "… more lines above": the header says that it goes on.
            return [*_header("Thinking…", "▾ ", width, palette), *self._end(width, palette)]
        title = "Thinking…" if seconds is None else f"Thought for {_seconds(seconds)}"
        if not has_text:
            return _header(title, "  ", width, palette)
        lines = _header(title, "▾ " if self.expanded else "▸ ", width, palette)
        if self.expanded:
            text = self._text.strip("\n")
            lines += joined(head(text, width, MOST_ROWS, palette.thinking, before), width, palette, before)
        return lines

    def _end(self, width: int, palette: Palette) -> list[Line]:
        return tail(self._text, width, _ROWS, palette.thinking, margin(width)).lines


def _header(title: str, sign: str, width: int, palette: Palette) -> list[Line]:
    return wrap([(title, palette.muted)], width, [(sign, palette.faint)] if width >= 8 else [])


def _seconds(value: float) -> str:
    """Whole seconds: what it took exactly says nothing."""
    return f"{max(1, round(value))} s" if value < 100 else wording.seconds(value)
