"""Where streamed Markdown may be cut: for any pieces it comes in, the same parts, and no text lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.plain.markdown import MAX_BLOCK, MAX_LINE, MarkdownCutter, MarkdownPart
from agentcli.plain.rendering import Renderer
from tests.core.test_patterns import at_most
from tests.support.tables import each_row


def cut(*pieces: str) -> list[MarkdownPart]:
    cutter = MarkdownCutter()
    return [*(part for piece in pieces for part in cutter.feed(piece)), *cutter.finish()]


def blocks(text: str) -> list[str]:
    return [part.text for part in cut(text) if part.kind in ("block", "item")]


def test_an_empty_line_ends_a_block_unless_the_next_line_is_indented() -> None:
    assert blocks("a\nb\n\nc") == ["a\nb", "c"]
    assert blocks("- a\n\n  more of a\n\nc") == ["- a\n\n  more of a", "c"]


def test_an_item_is_complete_when_the_next_one_begins_and_has_its_own_items_in_it() -> None:
    assert cut("1. a\n   - b\n2. c\n\nend") == [
        MarkdownPart("item", "1. a\n   - b"),
        MarkdownPart("item", "2. c"),
        MarkdownPart("block", "end"),
    ]


def paragraph_of(text: str) -> str:
    cutter = MarkdownCutter()
    assert list(cutter.feed(text)) == []
    return cutter.paragraph


def test_a_paragraph_is_available_up_to_its_last_complete_word() -> None:
    assert paragraph_of("A paragraph that goes on and o") == "A paragraph that goes on and"
    assert paragraph_of("A paragraph with **bold** words in it") == "A paragraph with **bold** words in"
    assert paragraph_of("A paragraph\nof two lines that goes on") == "A paragraph\nof two lines that goes"


@each_row(
    "text",
    [
        "too short to",
        "A paragraph with **bold words that",
        "A paragraph with `code that goes on",
        "A paragraph with [a link that goes on",
        "A paragraph with <b>tags that go on",
        "A | table | of several | columns",
        "- an item that is long enough",
        "> a quotation that is long enough",
        "12. an item that is long enough",
    ],
)
def test_text_that_may_still_change_is_not_available_early(text: str) -> None:
    assert paragraph_of(text) == ""


def test_a_heading_is_complete_at_the_end_of_its_line() -> None:
    cutter = MarkdownCutter()
    assert list(cutter.feed("# Head\nte")) == [MarkdownPart("block", "# Head")]


def test_code_is_complete_line_by_line_also_with_empty_lines_in_it() -> None:
    cutter = MarkdownCutter()
    assert list(cutter.feed("text\n```py\na\n\nb")) == [
        MarkdownPart("block", "text"),
        MarkdownPart("fence", "```py"),
        MarkdownPart("code", "a"),
        MarkdownPart("code", ""),
    ]
    assert list(cutter.feed("\n```\nafter")) == [MarkdownPart("code", "b"), MarkdownPart("fence", "```")]
    assert list(cutter.finish()) == [MarkdownPart("block", "after")]


def test_a_shorter_or_other_fence_does_not_end_code() -> None:
    kinds = [part.kind for part in cut("````\n```\n~~~\n````\nx")]
    assert kinds == ["fence", "code", "code", "fence", "block"]


def test_code_in_a_line_is_no_fence() -> None:
    assert blocks("```x``` is code") == ["```x``` is code"]


def test_a_block_without_end_is_cut_when_it_is_large() -> None:
    text = "a line of text\n" * (MAX_BLOCK // 5)
    assert all(len(found) < 2 * MAX_BLOCK for found in blocks(text))
    assert len(blocks(text)) > 1


_LINES = st.lists(st.sampled_from(["text", "", "- item", "  more", "```", "~~~~", "# h", "| a | b |", " ", "`x`"]))


@given(_LINES, st.data())
def test_splitting_the_text_into_deltas_changes_nothing(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert cut(*pieces) == cut(text)


@given(_LINES)
def test_no_line_with_text_is_lost_and_none_changes_its_place(lines: list[str]) -> None:
    shown = [row for part in cut("\n".join(lines)) for row in part.text.split("\n") if row.strip()]
    assert [row.rstrip() for row in shown] == [row.rstrip() for row in lines if row.strip()]


@pytest.mark.parametrize(
    "unit", ["a b ", "~", "`", "*", "**a ", "[", "![[](", "> ", "- ", "|a", "<a ", "&amp", "\\", "[a](b "]
)
def test_an_endless_line_is_printed_in_pieces(unit: str) -> None:
    text = (unit * 30_000)[:30_000]
    cutter, renderer = MarkdownCutter(), Renderer(colours=False)
    parts = []
    with at_most(60):
        for start in range(0, len(text), 500):
            parts += cutter.feed(text[start : start + 500])
            assert len(cutter.paragraph) <= MAX_LINE
        parts += cutter.finish()
        for part in parts:
            renderer.render(part.text, 80)
    assert max(len(part.text) for part in parts) <= MAX_BLOCK
    assert sum(len(part.text.replace(" ", "")) for part in parts) == len(text.replace(" ", ""))
