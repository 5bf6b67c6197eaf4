"""Opening and folding everything keeps the top line in place, whichever end a block folds to."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rich.segment import Segment
from textual.strip import Strip

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.make import make_block
from agentcli.tui.model import Add, AnswerItem, Item, NoticeItem, ToolItem
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.view import Viewport

WIDTH, HEIGHT = 60, 12


class Folding(Block):
    """Shows the first rows, the last, both or only a note of how many there are."""

    def __init__(self, item: Item) -> None:
        super().__init__(item)
        assert isinstance(item, AnswerItem)
        self.first, self.last, self.count = map(int, item.text.split())

    @property
    def foldable(self) -> bool:  # type: ignore[override]
        return self.first + self.last < self.count

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        texts = [f"{self.item.id}.{row}" for row in range(self.count)]
        rows = [BlockLine(Strip([Segment(text)]), text) for text in texts]
        if self.expanded or not self.foldable:
            return rows
        note = BlockLine(Strip([Segment("more")]), "", 0, "")
        return [*rows[: self.first], note, *rows[self.count - self.last :]]


def top(conversation: TranscriptItems, view: Viewport) -> str:
    view.settle()
    entry, row = view.rows()[0]
    return conversation.layouts.lines(entry)[row].strip.text.strip() if row >= 0 else ""


def scroll_up_to(text: str, conversation: TranscriptItems, view: Viewport) -> None:
    for _ in range(100):
        if top(conversation, view) == text:
            return
        view.scroll(-1)
    pytest.fail(f"{text} is not shown")


def made(*items: Item, folding: bool = False) -> tuple[TranscriptItems, Viewport]:
    conversation = TranscriptItems(Folding if folding else make_block, Palette())
    conversation.set_width(WIDTH)
    conversation.apply(Add(item) for item in items)
    view = Viewport(conversation)
    view.height = HEIGHT
    view.settle()
    return conversation, view


def test_the_end_of_a_long_output_stays_at_the_top_when_all_of_it_is_opened_and_folded() -> None:
    output = "\n".join(map(str, range(1, 201)))
    tool = ToolItem(id="t", name="Bash", title="Bash seq 1 200", status="running", output=output)
    notices = [NoticeItem(id=f"n{number}", text=f"notice {number}") for number in range(30)]
    conversation, view = made(tool, *notices)
    scroll_up_to("│ 198", conversation, view)
    for _ in range(3):
        view.keep_line(conversation.toggle_details)
        assert top(conversation, view) == "│ 198"
    assert conversation.details
    view.scroll(-90)
    assert top(conversation, view) == "│ 108"
    view.keep_line(conversation.toggle_details)
    assert "more lines above" in top(conversation, view)


def test_the_beginning_of_a_long_result_keeps_its_place_too() -> None:
    text = "\n".join(f"line {number}" for number in range(300))
    tool = ToolItem(id="t", name="Read", title="Read x", status="failed", output=text)
    conversation, view = made(tool, *(NoticeItem(id=f"n{number}", text="x") for number in range(30)))
    scroll_up_to("│ line 2", conversation, view)
    for _ in range(3):
        view.keep_line(conversation.toggle_details)
        assert top(conversation, view) == "│ line 2"


@pytest.mark.parametrize("seed", range(30))
def test_a_line_visible_folded_and_unfolded_keeps_its_place(seed: int) -> None:
    rng = random.Random(seed)
    items = [
        AnswerItem(id=f"i{n}", text=f"{rng.randrange(4)} {rng.randrange(4)} {rng.randrange(1, 40)}") for n in range(20)
    ]
    conversation, view = made(*items, AnswerItem(id="end", text="50 0 50"), folding=True)
    for _ in range(20):
        view.scroll(rng.randrange(-40, 30))
        before = top(conversation, view)
        was_open = conversation.details
        view.keep_line(conversation.toggle_details)
        after = top(conversation, view)
        if view.following or before in ("", "more"):
            continue
        if was_open and after != before:
            assert after == "more" or view.at_end, "only what is left out now may be gone"
        elif not was_open:
            assert after == before


def test_nothing_to_fold_and_an_empty_conversation_are_handled() -> None:
    conversation, view = made()
    view.keep_line(conversation.toggle_details)
    assert conversation.details
    conversation, view = made(NoticeItem(id="n", text="x"))
    view.keep_line(conversation.toggle_details)
    assert "x" in top(conversation, view)
