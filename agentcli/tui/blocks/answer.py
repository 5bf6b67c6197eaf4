"""Block of the model's answer: Markdown that may grow while it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.highlight import warm
from agentcli.tui.blocks.markdown import load_parser
from agentcli.tui.blocks.markdown_flow import Flow
from agentcli.tui.model import AnswerItem, Item
from agentcli.tui.theme.palette import Palette

AT_ONCE = 5_000
"""New characters processed by one layout, about 15 ms of work. A reply that arrives at once takes several layouts."""


def warm_up() -> None:
    """Load the parser and the most common languages for the first answer. Run it in a thread."""
    load_parser()
    warm()


class AnswerBlock(Block):
    """An answer. Finished lines are kept while the width and the palette stay the same."""

    item: AnswerItem

    def __init__(self, item: AnswerItem) -> None:
        super().__init__(item)
        self._parts: list[str] | None = None
        """The whole text in pieces if it has grown; None if `item.text` is complete."""
        self._flow: Flow | None = None
        self._new: list[str] | None = None
        """Pieces of the text that are not laid out yet."""
        self._was_shown = False

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        if self._parts is None:
            self._parts = [self.item.text]
        self._parts.append(text)
        self._new = self._new or []
        self._new.append(text)

    def replace(self, item: Item) -> None:
        before = self._text
        self.item = item if isinstance(item, AnswerItem) else self.item
        # After an interruption the item has no text: keep the shown one. At the end of an answer only blank lines
        # around it are dropped, so it need not be laid out again.
        if not self.item.text:
            self._parts = [before]
        elif self.item.text.strip("\n") != before.strip("\n"):
            self._parts = None
            self.forget()

    def pack(self) -> None:
        if self.item.done and self.item.text and not self._new:
            self._parts = None
        super().pack()

    def forget(self) -> None:
        self._flow = self._new = None

    @property
    def source(self) -> str:
        return self._text.strip("\n") if self.item.done else self._text

    @property
    def _text(self) -> str:
        if not self._parts:
            return self.item.text
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        flow = self._flow
        if flow is None or flow.width != width or flow.palette is not palette:
            flow = self._begin(Flow(width, palette))
        self._feed(flow)
        done = self.item.done and not self.behind
        lines = flow.lines(done=done)
        if flow.is_stale or (done and flow.defined_late):
            # Only now available: a highlighter that had to be loaded, or link targets defined after the links.
            flow = self._begin(Flow(width, palette, flow.references))
            lines = flow.lines(done=done)
        missing = flow.take_missing()
        if missing:
            Thread(target=warm, args=(missing,), name="lexers", daemon=True).start()
        return lines

    def tick(self, now: float) -> bool:
        return self._flow is not None and self._flow.can_be_coloured

    def _feed(self, flow: Flow) -> None:
        new = "".join(self._new or ())
        flow.feed(new[:AT_ONCE])
        self._new = [new[AT_ONCE:]] if len(new) > AT_ONCE else None
        self.behind = bool(self._new)

    def _begin(self, flow: Flow) -> Flow:
        """Feed a new flow. If the block was shown before, feed all of the text at once."""
        if self._was_shown:
            self._new = None
        text = self._text
        flow.feed(text[: len(text) - sum(map(len, self._new or ()))])
        self._flow, self._was_shown = flow, True
        return flow
