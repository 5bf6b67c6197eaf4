"""A change in hunks of which a person takes some and leaves others. Pure: no files, no screen.

A hunk is a place where old and new text differ; merging takes the new side of those accepted and the old side of all
others, byte for byte. `narrowed` turns that into the input of the tool that makes the change.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

REVIEWABLE = ("Edit", "MultiEdit", "Write")
"""The tools whose calls can be narrowed to some of their hunks."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_GAP = 3
"""So many equal lines part two hunks; what is nearer is one change to whoever reads it."""
_CONTEXT = 3
_MOST_EXACT = 2_000
_MOST_COMPARED = 20_000
"""Lines on one side: comparing is quadratic when many lines are alike, so beyond the first number frequent lines are
not looked at as anchors, and beyond the second the whole middle is one hunk."""
_MOST_TOLD = 8_000


@frozen
class Hunk:
    """`removed` gives way to `added`. Lines have their line ends."""

    number: int
    """Its place among all hunks of the change, from 0."""
    old_start: int
    """Index of the first line of `removed` in the old text."""
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    edit: int = 0
    """Which of several edits it belongs to."""


def split(old: str, new: str) -> list[Hunk]:
    """The hunks that lead from old to new, in order. None if the texts are equal."""
    left, right = _LINE.findall(old), _LINE.findall(new)
    hunks = []
    for number, (a, b, c, d) in enumerate(_differences(left, right)):
        before, after = tuple(left[max(0, a - _CONTEXT) : a]), tuple(left[b : b + _CONTEXT])
        hunks.append(Hunk(number, a, c, tuple(left[a:b]), tuple(right[c:d]), before, after))
    return hunks


def merge(old: str, new: str, accepted: Collection[int]) -> str:
    """The old text with the accepted hunks of `split(old, new)` in it."""
    return _applied(old, [hunk for hunk in split(old, new) if hunk.number in accepted])


def hunks_of(name: str, input: Json, old_text: str = "") -> list[Hunk]:
    """All hunks of a call of `Edit`, `MultiEdit` or `Write`; for Write against the file's present text."""
    found: list[Hunk] = []
    for edit, (old, new) in enumerate(_changes(name, input, old_text)):
        found += [replace(hunk, number=len(found) + hunk.number, edit=edit) for hunk in split(old, new)]
    return found


def narrowed(
    name: str, input: Json, old_text: str, accepted: Collection[int], hunks: Sequence[Hunk] | None = None
) -> Json | None:
    """The input with which only the accepted hunks happen: the same if all are, None if nothing is left to do.

    Who has the result of `hunks_of` already gives it, and saves the comparison.
    """
    hunks = hunks_of(name, input, old_text) if hunks is None else hunks
    if all(hunk.number in accepted for hunk in hunks):
        return input
    merged = [
        (old, _applied(old, [hunk for hunk in hunks if hunk.edit == edit and hunk.number in accepted]))
        for edit, (old, _new) in enumerate(_changes(name, input, old_text))
    ]
    if all(old == new for old, new in merged):
        return None
    if name == "Write":
        return {**input, "content": merged[0][1]}
    if name == "Edit":
        return {**input, "new_string": merged[0][1]}
    edits = [{**edit, "new_string": new} for edit, (old, new) in zip(input["edits"], merged, strict=True) if old != new]
    return {**input, "edits": edits}


def stranded(input: Json, after: Json | None) -> list[int]:
    """Edits of a narrowed MultiEdit (numbers of the narrowed list, from 1) that look for text which only a rejected
    hunk would have brought. Such a call fails as a whole, so whoever reviews should know before."""
    found = []
    brought = [str(edit["new_string"]) for edit in input.get("edits", ())]
    kept = after.get("edits", ()) if after else ()
    for number, edit in enumerate(kept, 1):
        wanted = str(edit["old_string"])
        still = any(wanted in str(earlier["new_string"]) for earlier in kept[: number - 1])
        origin = next((place for place, one in enumerate(input["edits"]) if one["old_string"] == edit["old_string"]), 0)
        needed = any(
            wanted and wanted in text and wanted not in str(input["edits"][place]["old_string"])
            for place, text in enumerate(brought[:origin])
        )
        if needed and not still:
            found.append(number)
    return found


def diff_of(hunks: Sequence[Hunk]) -> str:
    """A unified diff of these hunks, for people and for the model."""
    lines: list[str] = []
    for hunk in hunks:
        start, new_start = hunk.old_start - len(hunk.before), hunk.new_start - len(hunk.before)
        around = len(hunk.before) + len(hunk.after)
        old_count, new_count = len(hunk.removed) + around, len(hunk.added) + around
        lines.append(f"@@ -{_range(start, old_count)} +{_range(new_start, new_count)} @@")
        for sign, part in ((" ", hunk.before), ("-", hunk.removed), ("+", hunk.added), (" ", hunk.after)):
            for line in part:
                bare = line.rstrip("\r\n")
                lines.append(sign + bare)
                if bare == line:
                    lines.append("\\ No newline at end of file")
    return "\n".join(lines)


def verdict(hunks: Sequence[Hunk], accepted: Collection[int]) -> str:
    """What the model is told about a review; nothing when all was accepted."""
    rejected = [hunk for hunk in hunks if hunk.number not in accepted]
    if not rejected:
        return ""
    if len(rejected) == len(hunks):
        return (
            "The person reviewed this change and rejected "
            + ("it." if len(hunks) == 1 else f"all of its {len(hunks)} hunks.")
            + " Nothing was changed. Ask what they want instead, or propose another change."
        )
    diff = diff_of(rejected)
    if len(diff) > _MOST_TOLD:
        diff = diff[:_MOST_TOLD].rpartition("\n")[0] + "\n… (the rest is left out)"
    count = len(hunks) - len(rejected)
    return f"The person accepted {count} of {len(hunks)} hunks; only those were applied. Rejected:\n{diff}"


def _applied(old: str, hunks: Sequence[Hunk]) -> str:
    lines = _LINE.findall(old)
    pieces: list[str] = []
    position = 0
    for hunk in hunks:
        pieces += [*lines[position : hunk.old_start], *hunk.added]
        position = hunk.old_start + len(hunk.removed)
    return "".join([*pieces, *lines[position:]])


def _changes(name: str, input: Json, old_text: str) -> list[tuple[str, str]]:
    if name == "Write":
        # Read shows no line ends and Write keeps the file's own, so they are no difference.
        return [(old_text.replace("\r\n", "\n"), str(input["content"]).replace("\r\n", "\n"))]
    edits = input["edits"] if name == "MultiEdit" else [input]
    return [(str(edit["old_string"]), str(edit["new_string"])) for edit in edits]


def _differences(left: list[str], right: list[str]) -> list[tuple[int, int, int, int]]:
    """Places (a, b, c, d) where left[a:b] became right[c:d]; near ones are one."""
    start = _common(left, right)
    end = _common(left[start:][::-1], right[start:][::-1])
    before, after = left[start : len(left) - end], right[start : len(right) - end]
    longest = max(len(before), len(after))
    if longest == 0:
        return []
    if longest > _MOST_COMPARED:
        return [(start, start + len(before), start, start + len(after))]
    found: list[tuple[int, int, int, int]] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=longest > _MOST_EXACT)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        a, b, c, d = a + start, b + start, c + start, d + start
        if found and a - found[-1][1] < _GAP:
            found[-1] = (found[-1][0], b, found[-1][2], d)
        else:
            found.append((a, b, c, d))
    return found


def _common(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"
