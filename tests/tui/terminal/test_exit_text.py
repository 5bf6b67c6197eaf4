"""The text that the app leaves behind: capped, wrapped, and without control sequences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import WELCOME, AnswerItem, Item, NoticeItem, PromptItem, WelcomeItem
from agentcli.tui.terminal.exit_text import MAX_ROWS, exit_text
from agentcli.tui.theme.palette import Palette

ITEMS: list[Item] = [
    WelcomeItem(id=WELCOME, version="1"),
    PromptItem(id="p1", text="first"),
    AnswerItem(id="a1", text="one", done=True),
    PromptItem(id="p2", text="second"),
    AnswerItem(id="a2", text="I look.", done=True),
    NoticeItem(id="n", text="A notice"),
    AnswerItem(id="a3", text="Found it.", done=True),
    PromptItem(id="p3", text="/cost"),
]


def text(items: list[Item], wanted: str = "last", width: int = 40) -> str:
    return exit_text([make_block(item) for item in items], wanted, width)


def test_the_last_prompt_that_is_no_command_and_its_last_answer_are_kept() -> None:
    assert text(ITEMS) == "❯ second\n\n◆ Found it."
    assert text(ITEMS, "none") == ""
    assert text(ITEMS[:1]) == ""
    whole = text(ITEMS, "all")
    assert whole.startswith("❯ first\n\n◆ one")
    assert "A notice" in whole


def test_a_huge_answer_is_cut_with_a_note() -> None:
    rows = text([PromptItem(id="p", text="go"), AnswerItem(id="a", text="word\n\n" * 1_000, done=True)]).split("\n")
    assert len(rows) == MAX_ROWS["last"] + 1
    assert rows[-1].startswith("… ")
    assert rows[-1].endswith("more rows")


def test_every_row_fits_the_width() -> None:
    answer = AnswerItem(id="a", text="many words " * 40, done=True)
    assert max(map(len, text([PromptItem(id="p", text="go"), answer], width=30).split("\n"))) <= 30


def test_a_continued_answer_is_kept_in_one_piece() -> None:
    pieces: list[Item] = [
        PromptItem(id="p", text="go"),
        AnswerItem(id="a0", text="I look.", done=True),
        AnswerItem(id="a1", text="The first pie", done=True),
        NoticeItem(id="n", text="The answer goes on"),
        AnswerItem(id="a2", text="ce,", done=True, joint=""),
        AnswerItem(id="a3", text="the second.", done=True, joint="\n\n"),
    ]
    assert text(pieces) == "❯ go\n\n◆ The first piece,\n\n  the second."


def test_only_as_much_of_a_long_transcript_is_laid_out_as_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_ROWS, "all", 500)
    blocks = [make_block(PromptItem(id=f"p{number}", text=f"prompt {number}")) for number in range(1_500)]
    laid_out: list[object] = []
    layout = type(blocks[0]).layout

    def counted(self: Block, width: int, palette: Palette) -> Sequence[BlockLine]:
        laid_out.append(self)
        return layout(self, width, palette)

    monkeypatch.setattr(type(blocks[0]), "layout", counted)
    rows = exit_text(blocks, "all", 40).split("\n")
    assert len(rows) == 501
    assert rows[0] == "… earlier rows are left out"
    assert rows[-1] == f"❯ prompt {len(blocks) - 1}"
    assert len(laid_out) <= 252
