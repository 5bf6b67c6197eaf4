"""Merging some of a change's hunks, and the review in which a person picks them."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from agentcli.tui.hunks import diff_of, hunks_of, merge, narrowed, split, stranded, verdict

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "é", "", "  x"]), max_size=14)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts that share much, with any line ends, with and without a final one."""
    old = [line + draw(ENDS) for line in draw(LINES)]
    new = [line for line in old if draw(st.booleans()) or draw(st.booleans())]
    for _ in range(draw(st.integers(0, 3))):
        new.insert(draw(st.integers(0, len(new))), draw(st.sampled_from(["n", "a", "z"])) + draw(ENDS))
    left, right = "".join(old), "".join(new)
    return (
        left.rstrip("\r\n") if draw(st.booleans()) else left,
        right.rstrip("\r\n") if draw(st.booleans()) else right,
    )


@given(texts())
def test_all_hunks_make_the_new_text_and_none_the_old_one(pair: tuple[str, str]) -> None:
    old, new = pair
    numbers = {hunk.number for hunk in split(old, new)}
    assert merge(old, new, numbers) == new
    assert merge(old, new, set()) == old


@given(texts(), st.data())
def test_any_choice_of_hunks_changes_their_lines_and_no_others(pair: tuple[str, str], data: st.DataObject) -> None:
    old, new = pair
    hunks = split(old, new)
    accepted = {hunk.number for hunk in hunks if data.draw(st.booleans())}
    merged = merge(old, new, accepted)
    position, expected = 0, ""
    for hunk in hunks:
        removed, added = "".join(hunk.removed), "".join(hunk.added)
        place = len("".join(_lines(old)[: hunk.old_start]))
        expected += old[position:place] + (added if hunk.number in accepted else removed)
        assert old[place : place + len(removed)] == removed
        position = place + len(removed)
    assert merged == expected + old[position:]


@given(texts())
def test_rejecting_the_rest_later_gives_the_same_as_rejecting_it_at_once(pair: tuple[str, str]) -> None:
    old, new = pair
    hunks = split(old, new)
    if len(hunks) < 2:
        return
    first = merge(old, new, {0})
    assert merge(old, first, {hunk.number for hunk in split(old, first)}) == first


@given(texts(), st.data())
def test_a_narrowed_edit_does_the_accepted_hunks_only(pair: tuple[str, str], data: st.DataObject) -> None:
    old, new = pair
    input = {"file_path": "f", "old_string": old, "new_string": new, "replace_all": True}
    hunks = hunks_of("Edit", input)
    accepted = {hunk.number for hunk in hunks if data.draw(st.booleans())}
    found = narrowed("Edit", input, "", accepted)
    if accepted == {hunk.number for hunk in hunks}:
        assert found is input
    elif merge(old, new, accepted) == old:
        assert found is None
    else:
        assert found == {**input, "new_string": merge(old, new, accepted)}


def _lines(text: str) -> list[str]:
    import re

    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


OLD = "".join(f"line {number}\n" for number in range(20))
NEW = OLD.replace("line 2\n", "LINE 2\n").replace("line 10\n", "").replace("line 18\n", "line 18\nmore\n")


def test_changes_far_apart_are_hunks_of_their_own_with_the_lines_around_them() -> None:
    assert [(hunk.removed, hunk.added) for hunk in split(OLD, NEW)] == [
        (("line 2\n",), ("LINE 2\n",)),
        (("line 10\n",), ()),
        ((), ("more\n",)),
    ]
    assert split(OLD, NEW)[1].before == ("line 7\n", "line 8\n", "line 9\n")
    assert split(OLD, NEW)[2].after == ("line 19\n",)


def test_changes_with_few_lines_between_them_are_one_hunk() -> None:
    assert len(split("a\nb\nc\nd\n", "A\nb\nc\nD\n")) == 1
    assert len(split("a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n")) == 2


def test_equal_texts_have_no_hunks_and_a_new_file_is_one() -> None:
    assert split("same\n", "same\n") == []
    assert [hunk.added for hunk in split("", "a\nb")] == [("a\n", "b")]


def test_a_final_line_end_is_a_difference() -> None:
    assert merge("a\nb", "a\nb\n", {0}) == "a\nb\n"
    assert merge("a\nb", "a\nb\n", set()) == "a\nb"


def test_the_diff_of_all_hunks_is_the_unified_diff() -> None:
    expected = list(difflib.unified_diff(OLD.splitlines(), NEW.splitlines(), lineterm="", n=3))[2:]
    body = [line for line in expected if not line.startswith("@@")]
    shown = [line for line in diff_of(split(OLD, NEW)).split("\n") if not line.startswith("@@")]
    assert [line for line in shown if line[0] in "+-"] == [line for line in body if line[0] in "+-"]
    assert diff_of(split(OLD, NEW)[:1]).split("\n")[0] == "@@ -1,6 +1,6 @@"
    assert diff_of(split("a", "b")).split("\n") == [
        "@@ -1,1 +1,1 @@",
        "-a",
        "\\ No newline at end of file",
        "+b",
        "\\ No newline at end of file",
    ]


def test_a_write_is_compared_with_the_file_as_it_is_whatever_its_line_ends() -> None:
    input = {"file_path": "f", "content": NEW}
    with_returns = OLD.replace("\n", "\r\n")
    assert len(hunks_of("Write", input, with_returns)) == 3
    found = narrowed("Write", input, with_returns, {1})
    assert found == {"file_path": "f", "content": OLD.replace("line 10\n", "")}
    assert narrowed("Write", input, with_returns, {0, 1, 2}) is input
    assert narrowed("Write", input, with_returns, set()) is None


def test_a_write_of_a_new_file_is_one_hunk() -> None:
    assert len(hunks_of("Write", {"file_path": "f", "content": OLD})) == 1


def test_an_edit_of_several_loses_what_nothing_is_left_of() -> None:
    input = {
        "file_path": "f",
        "edits": [
            {"old_string": OLD, "new_string": NEW},
            {"old_string": "x", "new_string": "y", "replace_all": True},
            {"old_string": "p", "new_string": "q"},
        ],
    }
    hunks = hunks_of("MultiEdit", input)
    assert [(hunk.number, hunk.edit) for hunk in hunks] == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)]
    assert narrowed("MultiEdit", input, "", {1, 3}) == {
        "file_path": "f",
        "edits": [
            {"old_string": OLD, "new_string": OLD.replace("line 10\n", "")},
            {"old_string": "x", "new_string": "y", "replace_all": True},
        ],
    }
    assert narrowed("MultiEdit", input, "", {4}) == {
        "file_path": "f",
        "edits": [{"old_string": "p", "new_string": "q"}],
    }
    assert narrowed("MultiEdit", input, "", set()) is None
    assert narrowed("MultiEdit", input, "", set(range(5))) is input


def test_an_edit_that_builds_on_a_rejected_one_is_found() -> None:
    input = {
        "edits": [
            {"old_string": "one", "new_string": "two"},
            {"old_string": "two", "new_string": "three"},
            {"old_string": "else", "new_string": "other"},
        ]
    }
    assert stranded(input, narrowed("MultiEdit", input, "", {1, 2})) == [1]
    assert stranded(input, narrowed("MultiEdit", input, "", {0, 1})) == []
    assert stranded(input, None) == []


def test_the_model_is_told_what_was_rejected_and_nothing_when_nothing_was() -> None:
    hunks = split(OLD, NEW)
    assert verdict(hunks, {0, 1, 2}) == ""
    told = verdict(hunks, {0, 2})
    assert told.startswith("The person accepted 2 of 3 hunks; only those were applied. Rejected:\n@@ -8,7 +8,6 @@\n")
    assert "-line 10" in told
    assert "line 2\n" not in told
    assert verdict(hunks, set()).startswith("The person reviewed this change and rejected all of its 3 hunks.")
    assert verdict(hunks[:1], set()).startswith("The person reviewed this change and rejected it.")


def test_what_the_model_is_told_has_a_limit() -> None:
    old = "".join(f"{number}\n" for number in range(10)) + "x" * 30_000 + "\n"
    new = old.replace("0\n", "zero\n", 1).replace("x", "y")
    assert len(verdict(split(old, new), {0})) < 9_000


def test_very_long_texts_are_compared_in_time() -> None:
    old = [f"row {number % 50}\n" for number in range(6_000)]
    new = [*old[:100], "first\n", *old[100:5_900], "last\n", *old[5_900:]]
    assert merge("".join(old), "".join(new), {hunk.number for hunk in split("".join(old), "".join(new))}) == "".join(
        new
    )
    giant = [f"{number}\n" for number in range(30_000)]
    assert len(split("".join(giant), "".join(reversed(giant)))) == 1
