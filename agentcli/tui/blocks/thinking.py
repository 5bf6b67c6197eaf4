"""What the model thought: its end while it goes on, one line when it is over."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.format import elapsed
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.live import LiveText
from agentcli.tui.blocks.rows import MOST_ROWS, head, joined, margin
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.model import Item, ThinkingItem
from agentcli.tui.theme.palette import Palette

_ROWS = 6
_KEPT = 1_000_000


class ThoughtsBlock(Block):
    item: ThinkingItem

    def __init__(self, item: ThinkingItem) -> None:
        super().__init__(item)
        self._text = LiveText(item.text, _KEPT)

    def grow(self, text: str) -> None:
        self._text.add(text)

    def replace(self, item: Item) -> None:
        super().replace(item)
        # An interruption brings an item without text: what was seen stays.
        if self.item.text:
            self._text = LiveText(self.item.text, _KEPT)

    def forget(self) -> None:
        self._text.forget()

    @property
    def source(self) -> str:
        return self._text.text

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        seconds = self.item.seconds
        self.foldable = bool(self.source.strip())
        is_open = self.expanded or seconds is None
        sign = "  " if not self.foldable else "▾ " if is_open else "▸ "
        title = "Thinking…" if seconds is None else f"Thought for {elapsed(max(1, round(seconds)))}"
        lines = wrap([(title, palette.muted)], width, [(sign, palette.faint)] if width >= 8 else [])
        return [*lines, *self._body(width, palette)] if is_open else lines

    def _body(self, width: int, palette: Palette) -> list[BlockLine]:
        before, style = margin(width), palette.thinking
        if self.item.seconds is not None:
            return joined(head(self.source.strip("\n"), width, MOST_ROWS, style, before), width, palette, before)
        if self.expanded:
            return self._text.all(width, style, before).lines
        # Without "… more lines above": the header says that it goes on.
        return self._text.tail(width, _ROWS, style, before).lines
