"""What a query means, where its matches are on painted rows, and what a selection of cells copies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import Block, BlockLine, wrap
from agentcli.tui.model import Add, AnswerItem, NoticeItem, Remove
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.search import Finder, Query, Spot, hidden_matches, matches_in, parse_query
from agentcli.tui.transcript.stack import (
    Stack,
    StackEntry,
    Viewport,
    copy_selection,
    cut,
    paint,
    place,
    select,
    snap,
    word_at,
)
from tests.support.tables import each_row

PLAIN = Style.null()
MARK = Style(reverse=True)


class Folding(Block):
    foldable = True

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        return wrap([(self.source if self.expanded else self.source.split("\n")[0], PLAIN)], width)


def query(text: str) -> Query:
    found = parse_query(text)
    assert found is not None
    return found


def spots(text: str, wanted: str, width: int = 20, gutter: str = "") -> list[tuple[Spot, ...]]:
    return matches_in(wrap([(text, PLAIN)], width, [(gutter, PLAIN)] if gutter else ()), query(wanted))


# --------------------------------------------------------------------------------------------------------- search


@each_row(
    ("found", "expected"),
    [
        (len(spots("Word word WORD", "word")), 3),
        (len(spots("Word word WORD", "Word")), 1),
        (len(spots("a.c abc [x](y)", "a.c")), 1),
        (len(spots("a.c abc [x](y)", "[x](")), 1),
        (spots("one two three four", "two three", width=9), [(Spot(0, 4, 7), Spot(1, 0, 5))]),
        (spots("日本 word", "word", gutter="│ "), [(Spot(0, 7, 11),)]),
        (spots("say 日本", "本", gutter="│ "), [(Spot(0, 8, 10),)]),
        (spots("text", "│", gutter="│ "), []),
    ],
)
def test_a_text_is_found_over_line_ends_in_cells_and_by_case_if_it_has_a_capital(
    found: object, expected: object
) -> None:
    assert found == expected


def test_an_empty_query_finds_nothing() -> None:
    assert parse_query("") is None
    assert parse_query("  \n ") is None


def test_a_folded_block_reports_hidden_matches() -> None:
    block = Folding(NoticeItem(id="n", text="word\nword\nother"))
    assert hidden_matches(block, query("word"), 0) == 2
    assert hidden_matches(block, query("word"), 1) == 1
    assert hidden_matches(block, query("word"), 2) == 0
    block.expanded = True
    assert hidden_matches(block, query("word"), 1) == 0


def test_blocks_without_the_words_are_not_laid_out_and_stepping_wraps_around() -> None:
    items = TranscriptItems(Folding, Palette())
    items.set_width(40)
    texts = {2: "a needle, a needle", 12: "the needle"}
    items.apply([Add(NoticeItem(id=str(n), text=texts.get(n, "hay"))) for n in range(30)])
    view = Viewport(items.stack, items.lines)
    view.height = 4
    view.settle()
    finder = Finder(items, view)
    finder.start(query("needle"))
    while finder.is_searching:
        finder.search(0.0)
    assert items.stack.entries[20].lines is None
    assert (finder.count, finder.position) == (3, 3), "the nearest match above"
    positions = []
    for step in (1, 1, 1, 1, -1):
        finder.step(step)
        positions.append((finder.position, finder.has_wrapped))
    assert positions == [(1, True), (2, False), (3, False), (1, True), (3, True)]
    items.apply([Remove("12")])
    finder.search(0.0)
    assert (finder.count, finder.position) == (2, 0)


# --------------------------------------------------------------------------------------------------------- copying


@each_row(
    ("found", "expected"),
    [
        (cut("日本語", 1, 4), "日本"),
        (cut("e\u0301te\u0301", 0, 1), "e\u0301"),
        (cut("a👩‍👩‍👧b", 1, 2), "👩‍👩‍👧"),
        (cut("a\tb", 7, 9), "\tb"),
        (cut("abc", 5, None), ""),
        (cut("abc", -4, -1), ""),
        (cut("", 0, 5), ""),
        (snap("日本", 1, 3), (0, 4)),
        (snap("abcd", 1, 3), (1, 3)),
        (word_at("see src/app.py:12, there", 8), (4, 17)),
        (word_at("a (b)", 2), (2, 3)),
        (word_at("a  b", 1), None),
        (word_at("日本 x", 1), (0, 4)),
        (word_at("ab", 9), None),
    ],
)
def test_cells_are_widened_to_whole_characters_and_words_to_paths(found: object, expected: object) -> None:
    assert found == expected


def entry_of(stack: Stack, text: str, width: int = 10, gutter: str = "> ") -> StackEntry:
    entry = stack.add(Folding(AnswerItem(id=f"e{len(stack)}", text=text)))
    entry.lines = wrap([(text, PLAIN)], width, [(gutter, PLAIN)])
    stack.set_rows(entry, len(entry.lines))
    return entry


def copied(stack: Stack, selection: Selection) -> str:
    return copy_selection(selection, stack, lambda entry: entry.lines or ())


def test_wrapped_lines_are_whole_again_when_copied_and_gutters_are_left_out() -> None:
    stack = Stack()
    text = "one two three four\nfive"
    entry = entry_of(stack, text)
    assert entry.rows > 3
    assert copied(stack, Selection(None, None)) == text
    entry.lines = None
    assert copied(stack, Selection(None, None)) == text, "a distant block is not laid out for it"


def test_a_selection_over_blocks_has_blank_lines_where_gaps_were() -> None:
    stack = Stack()
    first, second = entry_of(stack, "first"), entry_of(stack, "second")
    selection = Selection(Offset(4, place(first, 0)), Offset(5, place(second, 0)))
    assert copied(stack, selection) == "rst\n\nsec"


def test_a_selection_from_a_gap_or_the_gutter_begins_with_the_text() -> None:
    stack = Stack()
    entry_of(stack, "first")
    second = entry_of(stack, "second")
    assert copied(stack, Selection(Offset(3, place(second, -1)), Offset(9, place(second, 0)))) == "second"
    assert copied(stack, select(second, 0, 0, 5)) == "sec"
    assert copied(stack, select(second, 0, 0, 1)) == ""


# -------------------------------------------------------------------------------------------------------- painting


def painted(text: str, spans: list[tuple[int, int | None, Style]], width: int = 10) -> str:
    """The row with what is marked in brackets."""
    strip = paint(Strip([Segment(text)]), width, Style(bgcolor="black"), spans)
    assert strip.cell_length == width
    return "".join(
        f"[{segment.text}]" if segment.style and segment.style.reverse else segment.text for segment in strip
    )


def test_a_row_is_filled_and_cut() -> None:
    assert painted("abc", []) == "abc       "
    assert painted("abcdefghijkl", []) == "abcdefghij"
    assert painted("日本", [], width=3) == "日 "
    assert painted("", [(0, None, MARK)]) == "          "


def test_highlights_cover_existing_text_and_never_split_a_wide_character() -> None:
    assert painted("abcdef", [(1, 3, MARK)]) == "a[bc]def    "
    assert painted("abc", [(1, None, MARK)]) == "a[bc]       "
    assert painted("日本語", [(1, 3, MARK)]) == "[日本]語    "
    assert painted("abc", [(8, 99, MARK)]) == "abc     [  ]"
    assert painted("abc", [(4, 2, MARK)]) == "abc       "
