"""Applying some hunks of a change, and the review in which the user picks them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from agentcli.core.permission import Answer
from agentcli.tools.files.diff import diff_display
from agentcli.tui.screens.hunks import (
    HunkReview,
    describe_verdict,
    diff_of,
    has_several,
    lines_of,
    merge_hunks,
    narrow_input,
    split,
    texts_of,
)
from tests.tui.screen_host import Host, asked, look, play, press, replies, settled, shown

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


def merge(old: str, new: str, accepted: set[int]) -> str:
    return merge_hunks(old, split(old, new), accepted)


@given(texts())
def test_all_hunks_make_the_new_text_and_none_the_old_one(pair: tuple[str, str]) -> None:
    old, new = pair
    numbers = {hunk.number for hunk in split(old, new)}
    assert merge(old, new, numbers) == new
    assert merge(old, new, set()) == old


@given(texts())
def test_the_diff_of_a_question_tells_whether_there_are_several_hunks(pair: tuple[str, str]) -> None:
    hunks = split(*pair)
    assert has_several(diff_of(hunks)) == (len(hunks) > 1)


@pytest.mark.parametrize(("between", "several"), [(2, False), (3, True), (20, True)])
def test_changes_with_few_lines_between_are_one_hunk(between: int, several: bool) -> None:
    middle = "same\n" * between
    old, new = f"a\n{middle}b\n", f"c\n{middle}d\n"
    assert has_several(diff_display("f", old, new)["diff"]) is several
    assert (len(split(old, new)) > 1) is several


@given(texts(), st.data())
def test_any_selection_of_hunks_changes_only_their_lines(pair: tuple[str, str], data: st.DataObject) -> None:
    old, new = pair
    hunks = split(old, new)
    accepted = {hunk.number for hunk in hunks if data.draw(st.booleans())}
    merged = merge(old, new, accepted)
    position, expected = 0, ""
    for hunk in hunks:
        removed, added = "".join(hunk.removed), "".join(hunk.added)
        place = len("".join(lines_of(old)[: hunk.old_start]))
        expected += old[position:place] + (added if hunk.number in accepted else removed)
        assert old[place : place + len(removed)] == removed
        position = place + len(removed)
    assert merged == expected + old[position:]


@given(texts(), st.data())
def test_a_narrowed_edit_does_the_accepted_hunks_only(pair: tuple[str, str], data: st.DataObject) -> None:
    """With any text around any number of replaced pieces, since the tool itself makes the change."""
    old, new = pair
    above, below = (data.draw(st.sampled_from(["", "top\n", "a\nb\n", "\nb"])) for _ in range(2))
    present = above + old + below
    every = {"old_string": old, "new_string": new, "replace_all": True}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Edit", {"file_path": "f", **every}),
        ("Edit", {"file_path": "f", **every, "replace_all": False}),
        ("MultiEdit", {"file_path": "f", "edits": [every]}),
        ("MultiEdit", {"file_path": "f", "edits": [{"old_string": "a", "new_string": "aa"}, every]}),
    ]
    name, input = data.draw(st.sampled_from(calls))
    try:
        before, after = texts_of(name, input, present)
    except ValueError:
        return
    hunks = split(before, after)
    accepted = {hunk.number for hunk in hunks if data.draw(st.booleans())}
    try:
        found = narrow_input(name, input, present, hunks, accepted)
    except ValueError:
        # In repetitive texts some choices cannot be expressed as an edit; the review then reports that.
        assert 0 < len(accepted) < len(hunks)
        return
    if accepted == {hunk.number for hunk in hunks}:
        assert found is input
    elif not accepted:
        assert found is None
    else:
        assert found is not None
        made = texts_of(name, found, present)[1]
        # In a text with several kinds of line ends it is the tool that says which kind a new line gets.
        plain = [text.replace("\r\n", "\n") for text in (made, merge(before, after, accepted))]
        assert plain[0] == plain[1]


@given(texts())
def test_no_line_is_shown_in_two_hunks(pair: tuple[str, str]) -> None:
    last = 0
    for hunk in split(*pair):
        assert hunk.old_start - len(hunk.before) >= last
        last = hunk.old_end + len(hunk.after)
        assert hunk.before == tuple(lines_of(pair[0])[hunk.old_start - len(hunk.before) : hunk.old_start])
        assert hunk.after == tuple(lines_of(pair[0])[hunk.old_end : last])


@given(texts())
def test_the_hunks_have_the_lines_of_the_diff_in_the_question(pair: tuple[str, str]) -> None:
    # A lone carriage return is a line end only where there is no other.
    old, new = (text.replace("\r\n", "\n").replace("\r", "\r\n") for text in pair)
    asked_about = str(diff_display("f", old, new)["diff"])
    assert _rows(diff_of(split(old, new))) == _rows(asked_about)


def _rows(diff: str) -> list[str]:
    """The changed lines."""
    return [row for row in diff.split("\n") if row.startswith(("+", "-"))]


OLD = "".join(f"line {number}\n" for number in range(20))
NEW = OLD.replace("line 2\n", "LINE 2\n").replace("line 10\n", "").replace("line 18\n", "line 18\nmore\n")


def narrow(name: str, input: dict[str, Any], present: str, accepted: set[int]) -> Any:
    return narrow_input(name, input, present, split(*texts_of(name, input, present)), accepted)


def test_a_write_is_compared_with_the_file_as_it_is_whatever_its_line_ends() -> None:
    input = {"file_path": "f", "content": NEW}
    for end in ("\r\n", "\r"):
        present = OLD.replace("\n", end)
        assert len(split(*texts_of("Write", input, present))) == 3
        found = narrow("Write", input, present, {1})
        assert found == {"file_path": "f", "content": OLD.replace("line 10\n", "")}
        assert narrow("Write", input, present, {0, 1, 2}) is input
        assert narrow("Write", input, present, set()) is None


def test_an_edit_without_a_match_is_reported() -> None:
    for present, old in (("a\na\n", "a"), ("b", "a"), ("b", "")):
        with pytest.raises(ValueError, match=r"old_string is empty|not there as it was"):
            texts_of("Edit", {"old_string": old, "new_string": "c"}, present)


def test_undecodable_bytes_of_the_file_never_enter_an_input() -> None:
    present = "a\n\udcff\nb\nc\nd\ne\n"
    input = {
        "file_path": "f",
        "edits": [{"old_string": "a", "new_string": "A"}, {"old_string": "e", "new_string": "E"}],
    }
    found = narrow("MultiEdit", input, present, {1})
    assert [edit["old_string"] for edit in found["edits"]] == ["e\n"]


def test_the_model_is_notified_of_rejected_hunks_only() -> None:
    hunks = split(OLD, NEW)
    assert describe_verdict(hunks, {0, 1, 2}) == ""
    told = describe_verdict(hunks, {0, 2})
    assert told.startswith("The user accepted 2 of 3 hunks; only those were applied. Rejected:\n@@ -8,7 +8,6 @@\n")
    assert "-line 10" in told
    assert "line 2\n" not in told
    assert describe_verdict(hunks, set()).startswith("I reviewed this change and rejected all of its 3 hunks.")
    assert describe_verdict(hunks[:1], set()).startswith("I reviewed this change and rejected it.")
    old = "".join(f"{number}\n" for number in range(10)) + "x" * 30_000 + "\n"
    new = old.replace("0\n", "zero\n", 1).replace("x", "y")
    assert len(describe_verdict(split(old, new), {0})) < 9_000


# -------------------------------------------------------------------------------------------------- the review

EDIT = {"file_path": "src/a.py", "old_string": OLD, "new_string": NEW}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file of `EDIT` is."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(OLD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def review(
    name: str = "Edit", input: dict[str, Any] | None = None, cwd: Path | None = None, **display: Any
) -> HunkReview:
    shown = {"kind": "diff", "path": "src/a.py", "diff": "", **display}
    return HunkReview(asked(name, input or EDIT, display=shown), cwd=cwd)


def answers(*scripts: str, of: Callable[[], HunkReview] = review) -> list[Any]:
    return replies(of, *scripts)


def test_every_hunk_is_shown_with_its_state() -> None:
    assert look(review(), "n", size=(50, 40)) == (
        "─── Which of these hunks? ───────────── src/a.py ─\n"
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
        "   1 Apply 2 of 3 hunks\n"
        " Enter confirm · y accept · n reject · Esc back"
    )


def test_all_hunks_of_a_review_have_the_same_layout() -> None:
    assert look(review(), size=(40, 10)).endswith("\n y accept · n reject · Esc back")
    wide = look(review(), size=(120, 40))
    assert wide.count(" │") == 18, "also the hunks that only add or remove"
    assert " │ " not in look(review(input={**EDIT, "new_string": NEW.replace("more", "more " * 30)}), size=(120, 40))


def test_accepting_all_hunks_is_a_plain_yes_and_esc_gives_no_answer() -> None:
    assert answers("end enter", "y y y end enter", "n k y end enter", "n n escape") == [Answer("allow")] * 3 + [None]


def test_only_accepted_hunks_are_applied_and_rejected_ones_are_reported_to_the_model() -> None:
    found = answers("y n y end enter", "j space end enter", "y d end enter", "n d up up up a end enter")
    wanted = [merge(OLD, NEW, {0, 2}), merge(OLD, NEW, {0, 2}), merge(OLD, NEW, {0})]
    inputs = [answer.updated_input for answer in found]
    assert [texts_of("Edit", input, OLD)[1] for input in inputs if input] == wanted
    assert inputs[3] is None
    assert {answer.behavior for answer in found} == {"allow"}
    assert found[0].message.startswith("The user accepted 2 of 3 hunks; only those were applied. Rejected:\n@@")
    assert "-line 10" in found[0].message
    assert found[3].message == ""
    (denied,) = answers("d enter")
    assert (denied.behavior, denied.updated_input) == ("deny", None)
    assert "rejected all of its 3 hunks" in denied.message


def test_a_write_is_reviewed_against_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode())
    input = {"file_path": "a.txt", "content": NEW}
    (found,) = answers("n n y end enter", of=lambda: review("Write", input, tmp_path))
    assert found.updated_input == {"file_path": "a.txt", "content": merge(OLD, NEW, {2})}
    assert len((tmp_path / "a.txt").read_bytes()) == len(OLD) + 20 + 3


def test_a_file_that_cannot_be_compared_shows_the_reason_and_returns(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    for name in ("a.bin", "."):
        text = look(review("Write", {"file_path": str(tmp_path / name), "content": "x"}))
        assert "The change cannot be shown in hunks: " in text
        input = {"file_path": str(tmp_path / name), "content": "x"}
        assert answers("enter", of=functools.partial(review, "Write", input)) == [None]


def test_the_compared_file_is_the_one_that_the_tool_edits_and_as_it_is_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / "src"))
    for path in ("~/a.py", "nowhere/../src/a.py"):
        assert "Apply all 3 hunks" in look(review(input={**EDIT, "file_path": path}))
    (folder / "src" / "a.py").write_text("something else")
    assert "cannot be shown in hunks: the text to replace is not there as it was" in look(review(), size=(120, 30))


def test_a_click_on_a_hunk_toggles_it() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        top = host.screen.query_one("#sheet").region.y
        await pilot.click(offset=(8, top + 1))
        await settled(pilot)
        assert "2✗" in shown(host)[1]

    play(review(), script)


def test_the_current_hunk_stays_visible_with_many_hunks_and_small_screens(folder: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(400))
    new = "".join(f"line {number}\n" if number % 10 else f"LINE {number}\n" for number in range(400))
    (folder / "a").write_text(old)
    dialog = review(input={"file_path": "a", "old_string": old, "new_string": new})
    text = look(dialog, " ".join("n" for _ in range(33)), size=(40, 10))
    assert "34✓" in text.split("\n")[1]
    assert "❯ ✓ accepted  Hunk 34 of 40" in text
    assert text.split("\n")[-2] == "   1 Apply 7 of 40 hunks"


def test_a_very_long_change_can_be_reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.tui.screens.page.LONG", 8_000)
    old = "".join(f"line {number} {'x' * 40}\n" for number in range(150))
    (tmp_path / "a").write_text(old)
    new = old.replace("x", "y").replace("line 140 y", "line 140 x")

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "n | j | end | enter")
        assert host.answer.behavior == "deny"

    play(review("Write", {"file_path": "a", "content": new}, tmp_path), script)


def test_hostile_text_in_a_hunk_is_only_text(folder: Path) -> None:
    evil = {
        "file_path": "\x1b]0;x\x07a\u202e",
        "old_string": "x\x1b[2J[red]\n",
        "new_string": "y\x9b31m\u202e\u200b\t日本🎉\r\n",
    }
    (folder / evil["file_path"]).write_text(evil["old_string"])
    for size in ((120, 30), (40, 10)):
        text = look(review(input=evil, path=evil["file_path"]), size=size)
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u200b"} & set(text)
    assert answers("n enter", of=lambda: review(input=evil))[0].behavior == "deny"
