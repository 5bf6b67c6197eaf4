"""Text as cells: widths, wrapping, what copying gives, and what can never be in a strip."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size
from rich.style import Style

from agentcli.tui.blocks.base import BlockLine, Run, clip, wrap
from agentcli.tui.blocks.rows import cut, cut_runs, size
from agentcli.tui.glyphs import EVEN, clean, glyphs, width_of

PLAIN, BOLD = Style.null(), Style(bold=True)
_TROUBLE = (
    "\t|\n| |  |a|word |世|界。|「|👨\u200d👩\u200d👧|🇩🇪|❤️|👍🏽|é|e\u0301|\u0301|\u200d|\ufe0f|\u202e|\u2066|\u200f"
    "|\x1b[31m|\x07|\x9b|\ud800|\U000e0041|\u3164|🏽|\u00ad|אב|\u200b|\r"
)
TROUBLE = st.sampled_from(_TROUBLE.split("|"))
TEXT = st.one_of(
    st.lists(TROUBLE, max_size=30).map("".join),
    st.text(alphabet=st.characters(), max_size=60),
    st.text(alphabet="ab \n", max_size=80),
)


def painted(lines: list[BlockLine]) -> list[str]:
    return [line.strip.text for line in lines]


def joined(lines: list[BlockLine]) -> str:
    return "".join([line.text + line.joint for line in lines[:-1]]) + lines[-1].text


def check(lines: list[BlockLine], text: str, width: int) -> None:
    assert lines
    assert joined(lines) == clean(text)
    for line in lines:
        assert line.strip.cell_length <= width
        assert sum(cell_len(segment.text) for segment in line.strip) == line.strip.cell_length
        assert not re.search(
            "[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ud800-\udfff]", line.strip.text
        )
        assert line.indent <= max(0, width - 1)


@given(TEXT, st.integers(1, 30))
def test_no_line_is_wider_than_asked_for_and_joining_gives_the_text_back(text: str, width: int) -> None:
    check(wrap([(text, PLAIN)], width), text, width)


@given(st.lists(TEXT, max_size=6), st.integers(1, 20), st.sampled_from(["", "• ", "世界 ", "12. "]))
def test_runs_and_prefixes_keep_width_and_text(texts: list[str], width: int, prefix: str) -> None:
    runs: list[Run] = [(text, BOLD if number % 2 else PLAIN) for number, text in enumerate(texts)]
    # A surrogate pair that only joining would make is not one: it is cleaned before.
    text = "".join(clean(part) for part in texts)
    check(wrap(runs, width, [(prefix, BOLD)]), text, width)
    check(wrap(runs, width, [(prefix, BOLD)], [("▎ ", PLAIN)]), text, width)


@given(TEXT, st.integers(1, 20))
def test_a_clipped_line_is_one_line_that_fits(text: str, width: int) -> None:
    line = clip([("> ", PLAIN), (text, PLAIN), ("end", BOLD)], width)
    assert line.strip.cell_length <= width
    assert sum(cell_len(segment.text) for segment in line.strip) == line.strip.cell_length
    assert "\n" not in line.strip.text


@given(TEXT)
def test_the_width_of_a_text_is_that_of_its_glyphs(text: str) -> None:
    text = clean(text).replace("\n", "").replace("\t", "")
    found = glyphs(text)
    assert "".join(source for source, _shown, _width in found) == text
    assert cell_len("".join(shown for _source, shown, _width in found)) == width_of(text)


def test_every_character_in_the_fast_path_takes_one_cell() -> None:
    even = [chr(code) for code in range(0x20, 0x30000) if EVEN(chr(code)) is None]
    assert len(even) > 1500
    assert {character for character in even if get_character_cell_size(character) != 1} == set()
    assert [glyph for glyph in glyphs("".join(even)) if len(glyph[0]) != 1 or glyph[0] != glyph[1]] == []


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one  two", 4, ["one", "two"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("to abcdefghij", 4, ["to", "abcd", "efgh", "ij"]),
        ("    abcdefgh", 6, ["    ab", "cdefgh"]),
        ("a\n\nb\n", 5, ["a", "", "b", ""]),
        ("ab   ", 4, ["ab"]),
        ("", 5, [""]),
        ("a\tb\t\tc", 40, ["a       b               c"]),
        ("世界世界世", 4, ["世界", "世界", "世"]),
        ("世界。世界", 4, ["世", "界。", "世界"]),
        ("ab 世界", 4, ["ab", "世界"]),
        ("世", 1, ["▯"]),
        ("👨‍👩‍👧👨‍👩‍👧", 3, ["👨‍👩‍👧", "👨‍👩‍👧"]),
        ("🇩🇪🇫🇷", 2, ["🇩🇪", "🇫🇷"]),
        ("1️⃣ a", 3, ["1️⃣", "a"]),
        ("👍🏽!", 3, ["👍🏽!"]),
        ("e\u0301e\u0301e\u0301", 2, ["e\u0301e\u0301", "e\u0301"]),
        ("\u0301a", 3, ["◌\u0301a"]),
        ("x\u202ey", 20, ["x<U+202E>y"]),
        ("a\u200db", 9, ["ab"]),
        ("🏽", 9, ["<U+1F3FD>"]),
        ("a\x1b]0;t\x07b", 20, ["a␛]0;t␇b"]),
        ("a\ud800b", 9, ["a\ufffdb"]),
        ("שלום עולם", 5, ["שלום", "עולם"]),
    ],
)
def test_lines_look_like_this(text: str, width: int, expected: list[str]) -> None:
    assert painted(wrap([(text, PLAIN)], width)) == expected


def test_the_first_line_has_the_prefix_and_the_others_blanks() -> None:
    lines = wrap([("one two three", PLAIN)], 9, [("• ", BOLD)])
    assert painted(lines) == ["• one two", "  three"]
    assert [(line.text, line.indent, line.joint) for line in lines] == [("one two", 2, " "), ("three", 2, "\n")]


def test_styles_follow_their_text_over_line_ends() -> None:
    lines = wrap([("one tw", PLAIN), ("o three", BOLD)], 8)
    assert [[(segment.text, segment.style) for segment in line.strip] for line in lines] == [
        [("one tw", PLAIN), ("o", BOLD)],
        [("three", BOLD)],
    ]
    lines = wrap([("世 tw", PLAIN), ("o three", BOLD)], 6)
    assert [[(segment.text, segment.style) for segment in line.strip] for line in lines] == [
        [("世 tw", PLAIN), ("o", BOLD)],
        [("three", BOLD)],
    ]


def test_endless_combining_marks_are_copied_but_not_painted() -> None:
    text = "a" + "\u0301" * 500
    (line,) = wrap([(text, PLAIN)], 10)
    assert len(line.strip.text) < 20
    assert line.text == text


def test_tags_are_spelled_out_unless_they_make_a_flag() -> None:
    england = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert painted(wrap([(england, PLAIN)], 10)) == [england]
    assert painted(wrap([("a\U000e0041", PLAIN)], 20)) == ["a<U+E0041>"]


def test_cut_text_ends_in_an_ellipsis_but_not_between_columns() -> None:
    assert cut("hello world", 8) == "hello w…"
    assert cut("high         from the environment", 8) == "high"
    assert size(cut_runs([("abc", Style()), ("def", Style())], 4)) == 4
