"""One replacement in a text: what matches, what is kept, and the report when nothing matches."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentcli.tools.files.edit_apply import Applied, EditProblem, Replacement, apply
from tests.support.tables import each_row


def edited(text: str, old: str, new: str, *, every: bool = False) -> Applied:
    applied = apply(text, Replacement(old, new, every), "a.py")
    assert isinstance(applied, Applied), applied
    return applied


def refused(text: str, old: str, new: str = "?", *, every: bool = False) -> str:
    problem = apply(text, Replacement(old, new, every), "a.py")
    assert isinstance(problem, EditProblem), problem
    return problem.text


@each_row(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\nc\r\nd\r\n", "a\nb", "x\ny", "x\r\ny\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nnew\nb\nc", "a\r\nnew\r\nb\nc\r\n"),
        ("a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n"),
        ("a\rb\rc", "b\nc", "x\ny", "a\rx\ry"),
        ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
        ("only", "only", "two\nlines", "two\nlines"),
        ("a\r\n\r\nb\r\n", "a\n\nb\n", "b\n", "b\r\n"),
        ("x\r\n", "x\r\n", "y\r\n", "y\r\n"),
    ],
)
def test_every_line_keeps_its_own_line_ending(text: str, old: str, new: str, after: str) -> None:
    assert edited(text, old, new).text == after


def test_overlapping_matches_are_ambiguous() -> None:
    assert "occurs 2 times" in refused("aaa", "aa")
    assert edited("aaaa", "aa", "b", every=True).text == "bb"


def test_several_matches_are_listed_with_their_context() -> None:
    text = refused("one\nx\ntwo\nx\nthree\n", "x")
    assert text.startswith("old_string occurs 2 times in a.py: lines 2, 4. Add surrounding lines")
    assert "--\n1\tone\n2\tx\n3\ttwo\n4\tx\n5\tthree" in text


@each_row(
    ("text", "old", "new", "after", "overlooked"),
    [
        ("a  \nb\n", "a\nb", "a\nc", "a  \nc\n", "trailing blanks"),
        ("a\nb\n", "a  \nb", "a\nc", "a\nc\n", "trailing blanks"),
        ("a \t\r\nb\r\n", "a\nb", "a\nc", "a \t\r\nc\r\n", "trailing blanks"),
        ("say “hi” – now\n", 'say "hi" - now', 'say "hi" - later', "say “hi” – later\n", "typographic"),
        ("it's\n", "it’s", "it’s not", "it's not\n", "typographic"),
        ("10\u00a0km\n", "10 km", "20 km", "20\u00a0km\n", "typographic"),
        ("end\nnext\n", "end   ", "END", "END\nnext\n", "trailing blanks"),
    ],
)
def test_one_match_that_differs_only_in_lookalikes_is_used_and_reported(
    text: str, old: str, new: str, after: str, overlooked: str
) -> None:
    applied = edited(text, old, new)
    assert applied.text == after
    assert overlooked in applied.note


def test_indentation_is_shown_but_not_guessed() -> None:
    text = refused("def f():\n\treturn 1\n", "def f():\n    return 1")
    assert "it differs only in indentation or trailing blanks" in text
    assert "2: [-····-]{+\\t+}return 1" in text


def test_a_miss_marks_the_difference_to_the_character() -> None:
    text = refused("import os\n\ndef compute(value, rate):\n    return value * rate\n", "def compute(values, rate):")
    assert text.splitlines() == [
        "old_string was not found in a.py. The nearest text is at line 3:",
        "3\tdef compute(value, rate):",
        "Differences, [-only in old_string-] {+only in the file+}:",
        "3: def compute(value[-s-], rate):",
    ]


def test_lookalike_characters_are_named_by_their_code_point() -> None:
    assert "{+е<U+0435>+}" in refused("nam\u0435 = 1\n", "name = 1")


def test_a_line_too_many_or_too_few_is_named() -> None:
    more = refused("a = 1\nb = 2\nc = 3\nd = 4\n", "a = 1\nc = 3\nd = 5")
    assert "only in the file" in more
    assert "[-5-]" in refused("a = 1\nc = 3\nd = 4\n", "a = 1\nc = 3\nd = 5")


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("x = 2\n", "x = 1", "x = 2", "new_string is already there, at line 1"),
        ("def a():\n    pass\n", "1\tdef a():", "x", "line numbers"),
        ("a\nb\n", "a\\nb", "x", "escaped once too often"),
        ("Value = 1\n", "value = 1", "x", "upper and lower case"),
        ("f(a, b)\n", "f(a,b)", "x", "only in white space"),
        ("abc\n", "§§§§§§", "x", "Nothing in the file is like it"),
        ("", "a", "b", "Nothing in the file is like it"),
        (
            "if ready {\n  go()\n}\n",
            "struct Colour {\n  red, green: u8,\n}",
            "x",
            "Nothing in the file is like it",
        ),
    ],
)
def test_a_miss_report_names_the_likely_cause(text: str, old: str, new: str, expected: str) -> None:
    assert expected in refused(text, old, new)


def test_the_nearest_line_is_found_in_a_large_file_too() -> None:
    filler = "".join(f"value_{number} = compute({number})\n" for number in range(30_000))
    text = refused(f"{filler}def unusual_name(first, second):\n{filler}", "def unusual_name(first, secnd):")
    assert "The nearest text is at line 30001:\n30001\tdef unusual_name(first, second):" in text
    assert "sec{+o+}nd" in text


def test_a_miss_report_is_short_for_any_file() -> None:
    text = "".join(f"value_{number} = compute({number})\n" for number in range(10_000))
    assert len(refused(text, "value_777 = compute(778)\nvalue_778 = compute(778)")) < 1_000
    assert len(refused("abcdefghij" * 10_000, "y" + "abcdefghij" * 500)) < 4_000
    assert len(refused("x" * 20_000, "y" + "x" * 1_000)) < 4_000


def test_control_characters_of_a_file_are_escaped_in_messages() -> None:
    assert "\x1b" not in refused("print('\x1b[31mred')\n", "print('red')")


LINE = st.text(st.sampled_from("ab \t“\"’'-–é日\u00a0"), max_size=8)
END = st.sampled_from(["\n", "\r\n"])
TEXT = st.lists(st.tuples(LINE, END), max_size=8).map(lambda parts: "".join(map("".join, parts)))


@given(TEXT, LINE, st.text(st.sampled_from("xy\n"), max_size=6), st.data())
def test_bytes_outside_an_edit_are_unchanged(text: str, last: str, new: str, data: st.DataObject) -> None:
    text += last
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    # A place never begins or ends inside a line end.
    assume(text[start - 1 : start + 1] != "\r\n" and text[end - 1 : end + 1] != "\r\n")
    old = text[start:end].replace("\r\n", "\n")
    assume(old and old != new)
    applied = apply(text, Replacement(old, new), "a")
    if isinstance(applied, EditProblem):
        assert applied.summary == "ambiguous"
        return
    assert applied.text.startswith(text[:start])
    assert applied.text.endswith(text[end:])
    middle = applied.text[start : len(applied.text) - (len(text) - end)]
    assert middle.replace("\r\n", "\n") == new
    if "\r" not in text:
        assert "\r" not in middle
    if text.count("\r\n") == text.count("\n") and "\n" in text:
        assert middle == new.replace("\n", "\r\n")


@given(st.text(max_size=40), st.text(max_size=10), st.text(max_size=10), st.booleans())
def test_no_input_makes_it_raise(text: str, old: str, new: str, every: bool) -> None:
    if old:
        apply(text, Replacement(old, new, every), "a")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_result_that_could_not_be_edited_again_is_refused(end: str) -> None:
    text = refused(f"a{end}" * 1_000, "a", "\n" * 40_000, every=True)
    assert "would grow to" in text
    assert "1,000 times" in text
    assert edited(f"a{end}" * 1_000, "a", "b" * 300, every=True).count == 1_000
