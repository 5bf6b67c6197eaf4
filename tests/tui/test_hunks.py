"""Merging some of a change's hunks, and the review in which a person picks them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from agentcli.core.permission import Answer
from agentcli.tools.edit_apply import Applied, Replacement, apply
from agentcli.tui.hunks import diff_of, hunks_of, merge, narrowed, split, stranded, verdict
from agentcli.tui.palette import Palette
from agentcli.tui.screens.hunks import HunkReview
from tests.tui.dialog_host import Host, asked, look, play, press, replies, settled, shown

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


def test_the_tool_makes_exactly_the_accepted_hunks_whatever_the_line_ends_of_the_file() -> None:
    input = {"file_path": "f", "old_string": OLD, "new_string": NEW}
    found = narrowed("Edit", input, "", {0, 2})
    assert found is not None
    for end in ("\n", "\r\n"):
        text = f"top\n{OLD}bottom".replace("\n", end)
        applied = apply(text, Replacement(found["old_string"], found["new_string"]), "f")
        assert isinstance(applied, Applied)
        assert applied.text == f"top\n{merge(OLD, NEW, {0, 2})}bottom".replace("\n", end)


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


# -------------------------------------------------------------------------------------------------- the review

EDIT = {"file_path": "src/a.py", "old_string": OLD, "new_string": NEW}


def review(
    name: str = "Edit", input: dict[str, Any] | None = None, cwd: Path | None = None, **display: Any
) -> HunkReview:
    shown = {"kind": "diff", "path": "src/a.py", "diff": "", **display}
    return HunkReview(asked(name, input or EDIT, display=shown), Palette(), cwd=cwd)


def answers(*scripts: str, of: Callable[[], HunkReview] = review) -> list[Any]:
    return replies(of, *scripts)


def test_every_hunk_is_shown_with_what_becomes_of_it() -> None:
    assert look(review(), (50, 40), "n") == (
        "─── Which of these hunks? ────────────── src/a.py\n"
        "  1✗   2✓   3✓\n"
        "   ✗ rejected  Hunk 1 of 3\n"
        " 1   line 0\n"
        " 2   line 1\n"
        " 3 - line 2\n"
        " 3 + LINE 2\n"
        " 4   line 3\n"
        " 5   line 4\n"
        " 6   line 5\n"
        "\n"
        " ❯ ✓ accepted  Hunk 2 of 3\n"
        "  8   line 7\n"
        "  9   line 8\n"
        " 10   line 9\n"
        " 11 - line 10\n"
        " 11   line 11\n"
        " 12   line 12\n"
        " 13   line 13\n"
        "\n"
        "   ✓ accepted  Hunk 3 of 3\n"
        " 16   line 16\n"
        " 17   line 17\n"
        " 18   line 18\n"
        " 19 + more\n"
        " 20   line 19\n"
        "\n"
        " ❯ 1 Apply 2 of 3 hunks\n"
        " y accept · n reject · Esc back · ↑↓ hunk"
    )


def test_done_with_all_accepted_is_a_plain_yes_and_esc_no_answer() -> None:
    assert answers("enter", "y y y enter", "n k y enter", "n n escape") == [Answer("allow")] * 3 + [None]


def test_only_what_was_accepted_happens_and_the_model_is_told_of_the_rest() -> None:
    found = answers("y n y enter", "j space enter", "y d enter", "n d up up up a enter")
    wanted = [merge(OLD, NEW, {0, 2}), merge(OLD, NEW, {0, 2}), merge(OLD, NEW, {0})]
    assert [answer.updated_input for answer in found] == [*({**EDIT, "new_string": text} for text in wanted), None]
    assert {answer.behavior for answer in found} == {"allow"}
    assert found[0].message.startswith("The person accepted 2 of 3 hunks; only those were applied. Rejected:\n@@")
    assert "-line 10" in found[0].message
    assert found[3].message == ""


def test_nothing_accepted_is_a_no() -> None:
    (found,) = answers("d enter")
    assert (found.behavior, found.updated_input) == ("deny", None)
    assert "rejected all of its 3 hunks" in found.message


def test_the_lines_of_an_edit_are_counted_as_in_the_file() -> None:
    diff = "@@ -41,6 +41,6 @@\n line 0\n line 1\n-line 2\n+LINE 2\n line 3"
    assert " 43 - line 2\n 43 + LINE 2\n" in look(review(diff=diff), (60, 20))


def test_a_write_is_reviewed_against_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode())
    input = {"file_path": "a.txt", "content": NEW}
    (found,) = answers("n n y enter", of=lambda: review("Write", input, tmp_path))
    assert found.updated_input == {"file_path": "a.txt", "content": merge(OLD, NEW, {2})}
    assert len((tmp_path / "a.txt").read_bytes()) == len(OLD) + 20 + 3


def test_a_write_of_a_new_file_is_all_or_nothing(tmp_path: Path) -> None:
    input = {"file_path": str(tmp_path / "new.txt"), "content": NEW}
    found = answers("enter", "n enter", of=lambda: review("Write", input))
    assert [answer.behavior for answer in found] == ["allow", "deny"]
    assert "❯ 1 Apply the hunk" in look(review("Write", input), (80, 40))


def test_a_file_that_cannot_be_compared_says_why_and_goes_back(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    for name in ("a.bin", "."):
        text = look(review("Write", {"file_path": str(tmp_path / name), "content": "x"}))
        assert "The change cannot be shown in hunks: " in text
        input = {"file_path": str(tmp_path / name), "content": "x"}
        assert answers("enter", of=functools.partial(review, "Write", input)) == [None]


def test_an_edit_that_would_fail_without_a_rejected_hunk_is_warned_of() -> None:
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "two", "new_string": "three"}]
    dialog = review("MultiEdit", {"file_path": "a", "edits": edits})
    assert "Edit 1 of those left looks for text that a rejected hunk would bring" in look(dialog, (100, 30), "n")


def test_a_click_on_a_hunk_turns_it_over() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        top = host.screen.query_one("#sheet").region.y
        await pilot.click(offset=(8, top + 1))
        await settled(pilot)
        assert "2✗" in shown(host)[1]

    play(review(), script)


def test_many_hunks_and_small_screens_keep_the_current_one_in_sight() -> None:
    old = "".join(f"line {number}\n" for number in range(400))
    new = "".join(f"line {number}\n" if number % 10 else f"LINE {number}\n" for number in range(400))
    dialog = review(input={"file_path": "a", "old_string": old, "new_string": new})
    text = look(dialog, (40, 10), " ".join("n" for _ in range(33)))
    assert "34✓" in text.split("\n")[1]
    assert "❯ ✓ accepted  Hunk 34 of 40" in text
    assert text.split("\n")[-2] == " ❯ 1 Apply 7 of 40 hunks"


def test_a_very_long_change_can_be_reviewed(tmp_path: Path) -> None:
    old = "".join(f"line {number} {'x' * 40}\n" for number in range(4_000))
    (tmp_path / "a").write_text(old)
    new = old.replace("x", "y").replace("line 3990 y", "line 3990 x")

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "n | j | enter")
        assert host.answer.behavior == "deny"

    play(review("Write", {"file_path": "a", "content": new}, tmp_path), script)


def test_hostile_text_in_a_hunk_is_only_text() -> None:
    evil = {
        "file_path": "\x1b]0;x\x07a\u202e",
        "old_string": "x\x1b[2J[red]\n",
        "new_string": "y\x9b31m\u202e\u200b\t日本🎉\r\n",
    }
    for size in ((120, 30), (40, 10)):
        text = look(review(input=evil, path=evil["file_path"]), size)
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u200b"} & set(text)
    assert answers("n enter", of=lambda: review(input=evil))[0].behavior == "deny"
