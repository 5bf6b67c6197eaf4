"""Block of the model's thinking: its last rows while it streams, one line afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.text.format import elapsed
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.growing_text import LiveText
from agentcli.tui.blocks.rows import MAX_ROWS, head, joined, margin
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.model import Item, ThinkingItem
from agentcli.tui.theme.palette import Palette

_THINKING_ROWS = 6
_KEPT = 1_000_000


class ThoughtsBlock(Block):
    item: ThinkingItem

    def __init__(self, item: ThinkingItem) -> None:
        super().__init__(item)
        self._grown: LiveText | None = None if _is_whole(item) else LiveText(item.text, _KEPT)
        """Text so far; None if the item has all of it."""

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        if self._grown is None:
            self._grown = LiveText(self.item.text, _KEPT)
        self._grown.add(text)

    def replace(self, item: Item) -> None:
        before = self.source
        super().replace(item)
        if _is_whole(self.item):
            self._grown = None
        elif self.item.text or self._grown is None:
            # After an interruption the item has no text: keep the shown one.
            self._grown = LiveText(self.item.text or before, _KEPT)

    def forget(self) -> None:
        if self._grown is not None:
            self._grown.forget()

    @property
    def source(self) -> str:
        return self.item.text if self._grown is None else self._grown.text

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
        if self.item.seconds is not None or self._grown is None:
            return joined(head(self.source.strip("\n"), width, MAX_ROWS, style, before), width, palette, before)
        if self.expanded:
            return self._grown.all(width, palette, style, before).lines
        # No "… more lines above" here: the header already shows that it is in progress.
        return self._grown.tail(width, _THINKING_ROWS, palette, style, before).lines


def _is_whole(item: Item) -> bool:
    return isinstance(item, ThinkingItem) and bool(item.text) and item.seconds is not None
