"""The stack of blocks, and which rows are in view, compared with all rows in one list and a window on it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rich.segment import Segment
from textual.strip import Strip

from agentcli.tui.blocks.base import Block, BlockLine, gap
from agentcli.tui.model import (
    Add,
    AnswerItem,
    Clear,
    Grow,
    NoticeItem,
    Operation,
    OutputItem,
    PromptItem,
    Remove,
    Replace,
    ToolItem,
)
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript import items
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.stack import Stack, Viewport, place


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
    laid_out = [(entry, conversation.lines(entry)) for entry in conversation.stack]
    rows: list[str] = []
    for entry, lines in laid_out:
        rows += [""] * conversation.stack.space(entry) + [line.strip.text for line in lines]
    return rows


def in_view(conversation: TranscriptItems, view: Viewport) -> list[str]:
    rows: list[str] = []
    at = conversation.stack.at(view.top)
    for row in range(view.top, min(conversation.stack.height, view.top + view.height)):
        at = conversation.stack.at(row)
        assert at is not None
        entry, inner = at
        assert not entry.stale, "what is in view is laid out"
        rows.append("" if inner < 0 else conversation.lines(entry)[inner].strip.text)
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
def test_the_view_is_a_window_on_all_rows_whatever_happens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    conversation = TranscriptItems(RowsBlock, Palette())  # type: ignore[arg-type]
    monkeypatch.setattr(items, "MAX_ROWS", (10, 3000)[seed % 2])
    view = Viewport(conversation.stack, conversation.lines)
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
        else:
            view.follow()
        followed = view.following
        view.settle()
        shown = in_view(conversation, view)
        conversation.trim({entry for entry in conversation.stack if rng.random() < 0.5})
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
    view = Viewport(conversation.stack, conversation.lines)
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
    view = Viewport(conversation.stack, conversation.lines)
    view.height = 5
    view.scroll(-3)
    view.look_at_row(4)
    view.follow()
    assert view.settle() == 0
    assert list(view.nearest()) == []
    conversation.apply([Remove("x"), Grow("x", "y"), Replace(NoticeItem(id="x", text="")), Clear()])
    assert conversation.source_text() == "\n"


def test_blocks_are_separated_by_a_blank_row_except_tools_and_notices() -> None:
    notice, answer = NoticeItem(id="n", text="x"), AnswerItem(id="a")
    tool = ToolItem(id="t", name="Read", title="Read x", status="done")
    assert gap(answer, answer) == gap(tool, notice) == 1
    assert gap(tool, tool) == gap(notice, notice) == 0
    assert gap(PromptItem(id="p", text="/cost"), OutputItem(id="o", text="$1")) == 0


def test_positions_are_correct_after_any_changes() -> None:
    rng = random.Random(3)
    stack = Stack()
    for number in range(300):
        action = rng.random()
        if action < 0.5 or not len(stack):
            block = RowsBlock(AnswerItem(id=f"i{number}"))
            if rng.random() < 0.3:
                stack.put_above([(block, rng.randrange(4))])
            else:
                stack.add(block, rows=rng.randrange(4))
        elif action < 0.9:
            stack.set_rows(rng.choice(stack.entries), rng.randrange(4))
        else:
            stack.remove(rng.choice([entry.block.item.id for entry in stack]))
        row = 0
        for entry in stack:
            row += stack.space(entry)
            assert stack.first_row(entry) == row
            for inner in range(entry.rows):
                assert stack.at(row + inner) == (entry, inner)
            row += entry.rows
        assert stack.height == row
        places = [place(entry, row) for entry in stack for row in range(-stack.space(entry), entry.rows)]
        assert places == sorted(set(places)), "places for selections increase down the conversation"
