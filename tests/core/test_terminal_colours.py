"""SGR sequences as spans: which looks they become, and that the text is that of `plain_text`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.terminal_colours import (
    ATTRIBUTES,
    MAX_SPANS,
    ColourState,
    check_spans,
    first_and_last,
    moved,
    split_colours,
)
from tests.support.tables import each_row


@each_row(
    ("codes", "look"),
    [
        ("31", "red"),
        ("1;32", "bold green"),
        ("91", "red"),
        ("90", "grey"),
        ("30", "text"),
        ("7", "reverse"),
        ("41;37", "reverse red"),
        ("7;44", "blue"),
        ("40;33", "yellow"),
        ("38;5;240;1", "bold"),
        ("38;2;0;200;0;4", "underline"),
        ("4;9;3", "italic underline strike"),
        ("31;0", ""),
        ("", ""),
        ("31;39", ""),
        ("1;22;31;99999;38", ""),
        ("58;5;1;32", "green"),
    ],
)
def test_named_colours_become_a_few_looks_and_others_are_left_out(codes: str, look: str) -> None:
    state = ColourState()
    state.apply(codes)
    assert state.look == look


def test_text_is_split_into_plain_text_and_spans() -> None:
    state = ColourState()
    text, spans = split_colours("a \x1b[31mred\x1b[1m\x1b[0m b\x1b[32m", state)
    assert (text, spans) == ("a red b", [(2, 5, "red")])
    assert state.look == "green"
    assert split_colours("on\n", state) == ("on\n", [(0, 3, "green")])


@given(st.text(alphabet="ab\n\r\t\x1b[]0;13m\x07\x9b\x08", max_size=60))
def test_any_text_becomes_free_of_control_sequences_and_spans_stay_inside(raw: str) -> None:
    text, spans = split_colours(raw, ColourState())
    assert text == plain_text(text)
    place = 0
    for start, end, look in spans:
        assert place <= start < end <= len(text)
        assert set(look.split()) <= {*ATTRIBUTES, "text", "red", "green", "yellow", "blue", "magenta", "cyan", "grey"}
        place = end


def test_spans_are_cut_to_a_part_and_limited_in_number() -> None:
    assert list(moved([(0, 4, "red"), (6, 9, "blue")], -2, 5)) == [(0, 2, "red"), (4, 5, "blue")]
    many = [(place, place + 1, "red") for place in range(MAX_SPANS + 9)]
    kept = first_and_last(many)
    assert len(kept) == MAX_SPANS
    assert (kept[0], kept[-1]) == (many[0], many[-1])


def test_spans_from_a_file_are_checked() -> None:
    assert check_spans([[0, 2, "red"], [1, 3, "x"], ["a"], [5, 4, ""], [3, 4, "blue"], 7]) == [
        (0, 2, "red"),
        (3, 4, "blue"),
    ]
    assert check_spans("no list") == []
