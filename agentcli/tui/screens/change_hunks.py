"""A change split into hunks that the user accepts or rejects one by one. Pure: no files, no screen.

A hunk is a place where the file's text and the new text differ. Merging takes the new side of accepted hunks and the
old side of all others. `narrowed` turns the result into input for the tool that makes the change.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plural import counted
from agentcli.tools.files.diff import equal_lines_at_start

REVIEWABLE = ("Edit", "MultiEdit", "Write")
_GAP = 3
"""Number of equal lines that separate two hunks; changes closer together read as one."""
_CONTEXT = 3
_MOST_COMPARED = 20_000
"""Maximum number of lines on one side that are compared; beyond it the whole changed region is one hunk."""
_LONGEST_REPORT = 8_000

LineRanges = tuple[int, int, int, int]


@frozen
class ChangeHunk:
    """Replaces `removed` by `added`; equal lines between two close changes are in both. Lines include line ends."""

    number: int
    old_start: int
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    """`removed` and `added` interleaved for display: sign and line."""

    @property
    def old_end(self) -> int:
        return self.old_start + len(self.removed)


def texts_of(name: str, input: Json, present: str) -> tuple[str, str]:
    """The file's text for the comparison, and the text that a call of `Edit`, `MultiEdit` or `Write` turns it into.

    Raises ValueError with the reason when an edit does not find its place.
    """
    if name == "Write":
        # Read hides line ends and Write keeps the file's own, so they do not count as a difference.
        return _plain(present), _plain(str(input["content"]))
    text = present
    for edit in input["edits"] if name == "MultiEdit" else [input]:
        text = _edited(text, edit)
    return present, text


def split(old: str, new: str) -> list[ChangeHunk]:
    """The hunks that turn old into new, in order; empty if the texts are equal. No line is in two hunks."""
    left, right = lines_of(old), lines_of(new)
    places = _differences(left, right)
    starts, ends = [place[0][0] for place in places], [place[-1][1] for place in places]
    hunks = []
    for number, place in enumerate(places):
        (a, _, c, _), (_, b, _, d) = place[0], place[-1]
        # Lines between two hunks are shown once: if they are few, half of them with each hunk.
        above = a - ends[number - 1] if number else 2 * a
        below = starts[number + 1] - b if number + 1 < len(places) else 2 * (len(left) - b)
        before = tuple(left[a - min(_CONTEXT, above // 2) : a])
        after = tuple(left[b : b + min(_CONTEXT, below - below // 2)])
        rows = _rows(left, right, place)
        hunks.append(ChangeHunk(number, a, c, tuple(left[a:b]), tuple(right[c:d]), before, after, tuple(rows)))
    return hunks


def has_several(diff: str) -> bool:
    """Whether a change has more than one hunk, judged by the unified diff shown in the question."""
    count, equal = 0, _GAP
    for line in diff.split("\n"):
        if line.startswith("@@"):
            equal = _GAP
        elif line.startswith(("+", "-")):
            count, equal = count + (equal >= _GAP), 0
        elif not line.startswith("\\"):
            equal += 1
    return count > 1


def merge(old: str, new: str, accepted: Collection[int]) -> str:
    return _merged(old, split(old, new), accepted)


def narrowed(
    name: str, input: Json, present: str, hunks: Sequence[ChangeHunk], accepted: Collection[int]
) -> Json | None:
    """Return the tool input that makes only the accepted hunks: unchanged if all are accepted, None if none is.

    `hunks` are the result of `split` for the texts of `texts_of`. Raises ValueError if this tool's input cannot express
    the selection.
    """
    if all(hunk.number in accepted for hunk in hunks):
        return input
    kept = [hunk for hunk in hunks if hunk.number in accepted]
    if not kept:
        return None
    if name == "Write":
        return {**input, "content": _merged(_plain(present), hunks, accepted)}
    wanted = _merged(present, hunks, accepted)
    if name == "Edit":
        return {**input, **(_same_place(input, present, wanted) or _piece(present, wanted, kept[0], kept[-1]))}
    edits = []
    # From the last to the first, so that the line numbers of the remaining hunks stay valid.
    for number in range(len(kept) - 1, -1, -1):
        before = _merged(present, hunks, {hunk.number for hunk in kept[number + 1 :]})
        after = _merged(present, hunks, {hunk.number for hunk in kept[number:]})
        edits.append(_piece(before, after, kept[number], kept[number]))
    return {**input, "edits": edits}


def diff_of(hunks: Sequence[ChangeHunk]) -> str:
    lines: list[str] = []
    for hunk in hunks:
        start, new_start = hunk.old_start - len(hunk.before), hunk.new_start - len(hunk.before)
        before, after = [(" ", line) for line in hunk.before], [(" ", line) for line in hunk.after]
        around = len(before) + len(after)
        old_count, new_count = len(hunk.removed) + around, len(hunk.added) + around
        lines.append(f"@@ -{_range(start, old_count)} +{_range(new_start, new_count)} @@")
        for sign, line in (*before, *hunk.rows, *after):
            bare = line.rstrip("\r\n")
            lines.append(sign + bare)
            if bare == line:
                lines.append("\\ No newline at end of file")
    return "\n".join(lines)


def verdict(hunks: Sequence[ChangeHunk], accepted: Collection[int]) -> str:
    rejected = [hunk for hunk in hunks if hunk.number not in accepted]
    if not rejected:
        return ""
    if len(rejected) == len(hunks):
        return (
            "I reviewed this change and rejected "
            + ("it." if len(hunks) == 1 else f"all of its {counted(len(hunks), 'hunk')}.")
            + " Ask what I want instead, or propose another change."
        )
    diff = diff_of(rejected)
    if len(diff) > _LONGEST_REPORT:
        diff = diff[:_LONGEST_REPORT].rpartition("\n")[0] + "\n… (the rest is left out)"
    count = len(hunks) - len(rejected)
    return f"The user accepted {count} of {counted(len(hunks), 'hunk')}; only those were applied. Rejected:\n{diff}"


def lines_of(text: str) -> list[str]:
    """Split into lines with line ends, by the same line end as the diff in the question."""
    end = "\n" if "\n" in text else "\r"
    lines = text.split(end)
    return [line + end for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _edited(text: str, edit: Json) -> str:
    from agentcli.tools.files.edit_apply import EditProblem, Replacement, apply

    old, new = str(edit["old_string"]), str(edit["new_string"])
    if not old:
        if text:
            raise ValueError("old_string is empty, but the file is not")
        return new
    applied = apply(text, Replacement(old, new, bool(edit.get("replace_all"))), "the file")
    if isinstance(applied, EditProblem):
        raise ValueError(f"the text to replace is not there as it was ({applied.summary})")
    return applied.text


def _same_place(input: Json, present: str, wanted: str) -> Json | None:
    """The same edit with another new text, if that is sufficient; else None."""
    old = str(input["old_string"])
    start = present.find(old)
    if start < 0 or input.get("replace_all"):
        return None
    end = start + len(old)
    edit = {"old_string": old, "new_string": wanted[start : len(wanted) - (len(present) - end)]}
    return edit if _makes(present, edit, wanted) else None


def _piece(present: str, wanted: str, first: ChangeHunk, last: ChangeHunk) -> Json:
    """An edit that replaces the lines from the first to the last hunk, with enough lines around to make it unique."""
    left, right = lines_of(present), lines_of(wanted)
    start, end = first.old_start, last.old_end
    reach = 0
    while True:
        above, below = max(0, start - reach), max(0, len(left) - end - reach)
        old = "".join(left[above : len(left) - below])
        edit: Json = {"old_string": old, "new_string": "".join(right[above : len(right) - below]), "replace_all": False}
        if old and _makes(present, edit, wanted):
            return edit
        if not (above or below):
            raise ValueError("some of its hunks cannot be made without the others")
        reach = 2 * reach + 1


def _makes(present: str, edit: Json, wanted: str) -> bool:
    """Whether an edit produces the wanted text. Line ends are ignored: in a file with several kinds of them the tool
    chooses the one for a new line."""
    try:
        # Text that cannot be encoded cannot be in a tool input either.
        edit["old_string"].encode()
        return _plain(_edited(present, edit)) == _plain(wanted)
    except ValueError:
        return False


def _merged(old: str, hunks: Sequence[ChangeHunk], accepted: Collection[int]) -> str:
    lines = lines_of(old)
    pieces: list[str] = []
    position = 0
    for hunk in hunks:
        if hunk.number in accepted:
            pieces += [*lines[position : hunk.old_start], *hunk.added]
            position = hunk.old_end
    return "".join([*pieces, *lines[position:]])


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def _differences(left: list[str], right: list[str]) -> list[list[LineRanges]]:
    """Places where left[a:b] became right[c:d], close ones grouped. Compared like the diff in the question."""
    start = equal_lines_at_start(left, right)
    end = equal_lines_at_start(left[start:][::-1], right[start:][::-1])
    before, after = left[start : len(left) - end], right[start : len(right) - end]
    longest = max(len(before), len(after))
    if longest == 0:
        return []
    if longest > _MOST_COMPARED:
        return [[(start, start + len(before), start, start + len(after))]]
    found: list[list[LineRanges]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if tag == "equal":
            continue
        if not (found and a + start - found[-1][-1][1] < _GAP):
            found.append([])
        found[-1].append((a + start, b + start, c + start, d + start))
    return found


def _rows(left: list[str], right: list[str], place: Sequence[LineRanges]) -> Iterator[tuple[str, str]]:
    position = place[0][0]
    for a, b, c, d in place:
        yield from ((" ", line) for line in left[position:a])
        yield from (("-", line) for line in left[a:b])
        yield from (("+", line) for line in right[c:d])
        position = b


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"
