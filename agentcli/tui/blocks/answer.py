"""The model's answer: Markdown that grows while it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

from agentcli.tui.blocks.base import Block, Line
from agentcli.tui.blocks.flow import Flow
from agentcli.tui.blocks.highlight import warm
from agentcli.tui.model import AnswerItem, Item
from agentcli.tui.palette import Palette


class AnswerBlock(Block):
    """What has been laid out is kept while the width and the palette stay the same."""

    item: AnswerItem

    def __init__(self, item: AnswerItem) -> None:
        super().__init__(item)
        self._parts = [item.text]
        self._flow: Flow | None = None

    def grow(self, text: str) -> None:
        self._parts.append(text)
        if self._flow is not None:
            self._flow.feed(text)

    def replace(self, item: Item) -> None:
        before = self.source
        self.item = item if isinstance(item, AnswerItem) else self.item
        # An interruption brings an item without text: what was seen stays.
        if self.item.text and self.item.text != before:
            self._parts = [self.item.text]
            self.forget()

    def forget(self) -> None:
        self._flow = None

    @property
    def source(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        flow = self._flow
        if flow is None or flow.width != width or flow.palette is not palette:
            flow = self._flow = Flow(width, palette)
            flow.feed(self.source)
        lines = flow.lines(done=self.item.done)
        language = flow.take_missing_language()
        if language:
            Thread(target=warm, args=((language,),), name=f"lexer of {language}", daemon=True).start()
        if self.item.done and flow.defined_late:
            # Links whose targets came after them are known only now.
            references = flow.references
            flow = self._flow = Flow(width, palette, references)
            flow.feed(self.source)
            lines = flow.lines(done=True)
        return lines

    def tick(self, now: float) -> bool:
        return self._flow is not None and self._flow.can_be_coloured
