"""Which rows are in view, compared with a plain model: all rows in one list, and a window on it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rich.segment import Segment
from textual.strip import Strip

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.model import Add, AnswerItem, Clear, Grow, NoticeItem, Operation, Remove, Replace
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.view import Viewport


class RowsBlock(Block):
    """As many rows as its text has letters, more of them when it is narrow."""

    def __init__(self, item: AnswerItem) -> None:
        super().__init__(item)
        self.text = item.text

    def grow(self, text: str, colours: object = ()) -> None:
        self.text += text

    def replace(self, item: AnswerItem) -> None:  # type: ignore[override]
        self.item, self.text = item, item.text

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        rows = len(self.text) * (2 if width < 50 else 1)
        return [BlockLine(Strip([Segment(f"{self.item.id}.{row}")])) for row in range(rows)]


def whole(conversation: TranscriptItems) -> list[str]:
    rows: list[str] = []
    for entry in conversation.stack:
        lines = conversation.layouts.lines(entry)
        rows += [""] * entry.space + [line.strip.text for line in lines]
    return rows


def in_view(conversation: TranscriptItems, view: Viewport) -> list[str]:
    rows: list[str] = []
    at = conversation.stack.at(view.top)
    for row in range(view.top, min(conversation.stack.height, view.top + view.height)):
        at = conversation.stack.at(row)
        assert at is not None
        entry, inner = at
        assert not entry.stale, "what is in view is laid out"
        rows.append("" if inner < 0 else conversation.layouts.lines(entry)[inner].strip.text)
    return rows


def operation(rng: random.Random, ids: list[str], number: int) -> Operation:
    text = "x" * rng.randrange(6)
    kind = rng.random()
    if not ids or kind < 0.45:
        return Add(AnswerItem(id=f"i{number}", text=text))
    if kind < 0.75:
        return Grow(rng.choice(ids), text)
    if kind < 0.9:
        return Replace(AnswerItem(id=rng.choice(ids), text=text))
    return Remove(rng.choice(ids)) if kind < 0.995 else Clear()


@pytest.mark.parametrize("seed", range(6))
def test_the_view_is_a_window_on_all_rows_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    conversation = TranscriptItems(RowsBlock, Palette())  # type: ignore[arg-type]
    conversation.layouts.most_rows = (10, 3000)[seed % 2]
    view = Viewport(conversation)
    view.height = 8
    conversation.set_width(80)
    for number in range(250):
        ids = [entry.block.item.id for entry in conversation.stack]
        action = rng.random()
        if action < 0.7:
            conversation.apply([operation(rng, ids, number)])
        elif action < 0.85:
            view.scroll(rng.choice((-6, -3, -1, 1, 3, 6)))
        elif action < 0.9:
            conversation.set_width(rng.choice((40, 80)))
        elif action < 0.93:
            view.height = rng.choice((1, 3, 8, 20))
        elif action < 0.96:
            conversation.measure(view.nearest(), 0.0)
        else:
            view.follow()
        followed = view.following
        view.settle()
        shown = in_view(conversation, view)
        conversation.layouts.trim({entry for entry in conversation.stack if rng.random() < 0.5})
        assert not followed or view.following, "nothing but a person ends following"
        rows = whole(conversation)
        view.settle()
        assert in_view(conversation, view) == shown, "true heights of the rest move nothing in view"
        assert rows[view.top : view.top + view.height] == shown
        assert conversation.stack.height == len(rows)
        if view.following:
            assert shown == rows[-view.height :]
        assert len(shown) == min(view.height, len(rows))


def test_scrolling_back_and_forth_returns_to_the_same_rows() -> None:
    conversation = TranscriptItems(RowsBlock, Palette())  # type: ignore[arg-type]
    conversation.apply([Add(AnswerItem(id=f"i{number}", text="x" * (number % 7))) for number in range(60)])
    conversation.set_width(80)
    view = Viewport(conversation)
    view.height = 8
    view.settle()
    view.scroll(-40)
    before = in_view(conversation, view)
    for step in (1, 2, 5, 9):
        for _ in range(6):
            view.scroll(-step)
        for _ in range(6):
            view.scroll(step)
        assert in_view(conversation, view) == before


def test_an_empty_stack_is_shown() -> None:
    conversation = TranscriptItems(RowsBlock, Palette())  # type: ignore[arg-type]
    view = Viewport(conversation)
    view.height = 5
    view.scroll(-3)
    view.look_at_row(4)
    view.follow()
    assert view.settle() == 0
    assert list(view.nearest()) == []
    conversation.apply([Remove("x"), Grow("x", "y"), Replace(NoticeItem(id="x", text="")), Clear()])
    assert conversation.source_text() == "\n"
