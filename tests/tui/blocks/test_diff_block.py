"""Diffs as rows: parsing, numbers, words, both layouts, and text that is no diff."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.unified_diff import DiffLine, parse
from agentcli.tools.files.diff import diff_display
from agentcli.tui.blocks import diff
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.diff import find_changed_words, pairs
from agentcli.tui.theme.palette import Palette
from tests.support.tables import each_row

PALETTE = Palette()
DIFF = """\
@@ -1,4 +1,5 @@
 def head(text, end):
-    return text[0:end - 1]
+    # The end is exclusive.
+    return text[0:end]

 x = 1
@@ -99,2 +100,1 @@ class Parser:
-    gone()
     kept()"""


def unified(text: str, width: int, palette: Palette, path: str = "") -> list[BlockLine]:
    return [line for group in diff.diff_groups(parse(text), width, palette, path) for line in group]


def side_by_side(text: str, width: int, palette: Palette, path: str = "") -> list[BlockLine]:
    groups = diff.diff_groups(parse(text), width, palette, path, two_columns=True)
    return [line for group in groups for line in group]


def screen(lines: list[BlockLine]) -> str:
    return "\n".join(line.strip.text.rstrip() for line in lines)


def copied(lines: list[BlockLine]) -> str:
    return "".join(line.text + line.joint for line in lines)


def words(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


TABS = "@@ -1,2 +1,2 @@\n key\tvalue\n-longkey\told\n+longkey\tnew\n"
NOTES = "@@ -1,3 +1,3 @@\n-a\n\\ No newline at end of file\n+b\n… the rest of the diff is not shown"
NOTE_BETWEEN = "@@ -1,1 +1,1 @@\n-value = 1\n\\ No newline\n+value = 2"


@each_row(
    ("rows", "look"),
    [
        (
            unified(DIFF, 60, PALETTE),
            """\
  1   def head(text, end):
  2 -     return text[0:end - 1]
  2 +     # The end is exclusive.
  3 +     return text[0:end]
  4
  5   x = 1
⋯ class Parser:
 99 -     gone()
100       kept()""",
        ),
        (
            side_by_side(DIFF, 70, PALETTE),
            """\
  1   def head(text, end):        │   1   def head(text, end):
                                  │   2 +     # The end is exclusive.
  2 -     return text[0:end - 1]  │   3 +     return text[0:end]
  3                               │   4
  4   x = 1                       │   5   x = 1
⋯ class Parser:
 99 -     gone()                  │
100       kept()                  │ 100       kept()""",
        ),
        (unified(TABS, 60, PALETTE), "1   key     value\n2 - longkey old\n2 + longkey new"),
        (
            unified(NOTES, 60, PALETTE),
            "1 - a\n    No newline at end of file\n1 + b\n    … the rest of the diff is not shown",
        ),
        (side_by_side(NOTE_BETWEEN, 60, PALETTE), "1 - value = 1                │ 1 + value = 2\n    No newline"),
    ],
)
def test_rows_have_numbers_and_signs_and_replacements_beside_one_another(rows: list[BlockLine], look: str) -> None:
    assert screen(rows) == look


def test_copying_rows_gives_the_code_without_numbers_and_signs() -> None:
    lines = unified("@@ -1,1 +1,2 @@\n-old  one\n+\tnew one that is long enough to be wrapped\n+x", 24, PALETTE)
    assert copied(lines) == "old  one\n\tnew one that is long enough to be wrapped\nx\n"
    assert all(line.strip.text[line.indent :].strip() for line in lines)


def test_changed_rows_are_coloured_to_the_edge_and_the_others_are_not() -> None:
    widths = [line.strip.cell_length for line in unified(DIFF, 60, PALETTE)]
    assert [width == 60 for width in widths] == [False, True, True, True, False, False, False, True, False]


def test_only_the_words_that_changed_are_marked() -> None:
    marked = [
        segment.text
        for line in unified("@@ -1,1 +1,1 @@\n-def head(text, end):\n+def head(text: str, end):", 60, PALETTE)
        for segment in line.strip
        if segment.style and segment.style.bgcolor in (PALETTE.added_word.bgcolor, PALETTE.removed_word.bgcolor)
    ]
    assert "".join(marked) == ": str"


def test_changed_words_with_a_blank_between_them_are_one_stretch() -> None:
    old, new = "print('a', end='') # keep this comment", "print('a', flush now='') # keep this comment"
    before, after = find_changed_words(old, new)
    assert (words(old, before), words(new, after)) == (["end"], ["flush now"])
    assert find_changed_words("return 1", "raise ValueError(name)") == ([], []), "little in common"


def test_lines_are_paired_by_similarity_and_the_rest_shares_rows() -> None:
    old = ["alpha = compute(1)", "gamma = other(3)"]
    new = ["# a new comment", "alpha = compute(2)", "gamma = other(4)", "last"]
    lines = [DiffLine(sign, text) for sign, side in (("-", old), ("+", new)) for text in side]
    assert pairs(lines, [0, 1], [2, 3, 4, 5]) == [(None, 2), (0, 3), (1, 4), (None, 5)]


def test_a_new_file_is_coloured_in_its_columns_only() -> None:
    lines = unified("@@ -0,0 +1,2 @@\n+import os\n+x = 1", 60, PALETTE, "a.py")
    assert screen(lines) == "1 + import os\n2 + x = 1"
    coloured = ["".join(part.text for part in line.strip if part.style and part.style.bgcolor) for line in lines]
    assert coloured == ["1 +", "2 +"]


def test_code_colours_are_there_for_a_known_kind_of_file_and_never_change_the_text() -> None:
    plain, coloured = unified(DIFF, 60, PALETTE), unified(DIFF, 60, PALETTE, "a.py")
    assert screen(plain) == screen(coloured)
    assert PALETTE.syntax["keyword"].color in {
        part.style.color for line in coloured for part in line.strip if part.style is not None
    }


def test_a_diff_of_several_files_names_each_and_takes_headers_for_headers_only_outside_of_hunks() -> None:
    text = (
        "diff --git a/one.sql b/one.sql\nindex 1..2 100644\n--- a/one.sql\n+++ b/one.sql\n"
        "@@ -1,2 +1,1 @@\n--- a comment\n x\n"
        "diff --git a/two b/two\nnew file mode 100644\n--- /dev/null\n+++ b/two\n@@ -0,0 +1 @@\n+y"
    )
    assert screen(unified(text, 40, PALETTE)) == "one.sql\n1 - -- a comment\n1   x\ntwo\n1 + y"
    assert [hunk.path for hunk in parse(text)] == ["one.sql", "two"]


@pytest.mark.parametrize(
    "text", ["", "\n", "@@", "@@ -1 +1 @@", "@@ -x,y +z @@\n+a", "+a\n-b\n c\nd", "--- a\n+++ b", "\\"]
)
def test_text_that_is_barely_a_diff_is_still_shown(text: str) -> None:
    for width in (1, 2, 5, 20, 200):
        unified(text, width, PALETTE)
        side_by_side(text, width, PALETTE)


def test_two_columns_are_chosen_only_where_nothing_wraps_and_something_was_replaced() -> None:
    assert diff.fits_side_by_side(parse(DIFF), 120)
    assert not diff.fits_side_by_side(parse(DIFF), 100)
    assert not diff.fits_side_by_side(parse("@@ -0,0 +1,1 @@\n+a"), 120)
    assert not diff.fits_side_by_side(parse("@@ -1,1 +1,1 @@\n-a\n+" + "b" * 80), 120)


lines_of_text = st.lists(st.text("ab \t=(\u4e2d\u0301😀", max_size=30), max_size=12).map("\n".join)


@given(lines_of_text, lines_of_text, st.integers(1, 200))
def test_every_diff_fits_and_the_new_code_can_be_copied_out_of_it(old: str, new: str, width: int) -> None:
    text = str(diff_display("a.py", old, new)["diff"])
    for lines in (unified(text, width, PALETTE, "a.py"), side_by_side(text, width, PALETTE, "a.py")):
        assert all(line.strip.cell_length <= width for line in lines)
    if width >= 48:
        found = copied([line for line in side_by_side(text, width, PALETTE) if not _is_note(line)])
        kept = [line.text for hunk in parse(text) for line in hunk.lines if line.sign in (" ", "+")]
        assert found.rstrip("\n").split("\n") == "\n".join(kept).rstrip("\n").split("\n")


def _is_note(line: BlockLine) -> bool:
    return line.text.startswith("No newline")


@given(st.text(st.sampled_from("@-+ \\\n1,2ab\x1b\u202e\ud800")), st.integers(1, 120))
def test_any_text_is_shown_without_control_sequences(text: str, width: int) -> None:
    for lines in (unified(text, width, PALETTE), side_by_side(text, width, PALETTE)):
        for line in lines:
            assert line.strip.cell_length <= width
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\ud800]", line.strip.text)


@given(st.text("ab (=", max_size=40), st.text("ab (=", max_size=40))
def test_changed_words_are_in_order_and_inside_of_the_line(old: str, new: str) -> None:
    for text, spans in zip((old, new), find_changed_words(old, new), strict=True):
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(one[1] < other[0] for one, other in pairwise(spans))
