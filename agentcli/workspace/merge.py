"""Three-way merge of text by lines: reverse one change and keep other changes. Pure.

Unlike in git, changes to neighbouring lines do not clash: an edit of line 2 and one of line 3 are two edits. The caller
must decide only if both sides replaced the same line in different ways.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

from agentcli.core.frozen import frozen

MergeSide = Literal["mine", "other"]
MAX_MERGED_SIZE = 4 * 1024 * 1024
_MAX_COMPARISONS = 1_000_000
"""Maximum pairs of equal lines that are compared; beyond it the differing part counts as one change."""
_MAX_BLOCK_SIZE = 250_000
"""Maximum size of a block: its lines times their replacement lines. A larger one is first split at unique lines."""
_LOOKED_AT = 8_000
"""A zero byte within this many bytes makes a file binary, as in git."""


@frozen
class Clash:
    """Lines that both sides replaced."""

    line: int
    """Number of the first line in `mine`, from 1."""
    mine: bytes
    other: bytes


@frozen
class Merged:
    content: bytes
    clashes: tuple[Clash, ...] = ()


@frozen
class LineChange:
    """Replaces the lines `start` to `end` of the base by `lines`."""

    start: int
    end: int
    lines: Sequence[bytes]

    def overlaps(self, other: LineChange) -> bool:
        if self.start == self.end or other.start == other.end:
            # Lines that are only added clash if they are inserted between lines that are removed.
            inner, outer = (self, other) if self.start == self.end else (other, self)
            return outer.start < inner.start < outer.end
        return self.start < other.end and other.start < self.end


def is_text(content: bytes) -> bool:
    return len(content) <= MAX_MERGED_SIZE and b"\0" not in content[:_LOOKED_AT]


def merge(base: bytes, mine: bytes, other: bytes, favour: MergeSide = "mine") -> Merged:
    """Apply the changes from `base` to `other` to `mine`. For clashing lines, `favour` chooses the side."""
    lines = base.splitlines(keepends=True)
    ours = list_changes(lines, mine.splitlines(keepends=True))
    theirs = list_changes(lines, other.splitlines(keepends=True))
    merged: list[bytes] = []
    clashes: list[Clash] = []
    at = shift = done_ours = done_theirs = 0
    while done_ours < len(ours) or done_theirs < len(theirs):
        left, right = _next_group(ours, theirs, done_ours, done_theirs)
        done_ours, done_theirs = done_ours + len(left), done_theirs + len(right)
        start = min(hunk.start for hunk in (*left, *right))
        end = max(hunk.end for hunk in (*left, *right))
        merged += lines[at:start]
        at = end
        here = _apply(lines, left, start, end)
        there = _apply(lines, right, start, end)
        if left and right and start == end and here != there:
            # Both only added lines, at the same place.
            merged += [*here, *there]
        elif not right or here == there:
            merged += here
        elif not left:
            merged += there
        else:
            clashes.append(Clash(start + shift + 1, b"".join(here), b"".join(there)))
            merged += here if favour == "mine" else there
        shift += len(here) - (end - start) if left else 0
    merged += lines[at:]
    return Merged(_join_lines(merged), tuple(clashes))


def _next_group(
    ours: Sequence[LineChange], theirs: Sequence[LineChange], done_ours: int, done_theirs: int
) -> tuple[list[LineChange], list[LineChange]]:
    """The first hunk that is not done, with all that overlap it, directly or through others."""
    left: list[LineChange] = []
    right: list[LineChange] = []
    mine = ours[done_ours] if done_ours < len(ours) else None
    other = theirs[done_theirs] if done_theirs < len(theirs) else None
    if mine is not None and (other is None or (mine.start, mine.end) <= (other.start, other.end)):
        left.append(mine)
    elif other is not None:
        right.append(other)
    while True:
        at_left, at_right = done_ours + len(left), done_theirs + len(right)
        more_right = theirs[at_right] if at_right < len(theirs) else None
        more_left = ours[at_left] if at_left < len(ours) else None
        # Hunks of one side are in order: only the last ones can reach the next.
        if more_right is not None and any(_together(hunk, more_right) for hunk in left[-2:]):
            right.append(more_right)
        elif more_left is not None and any(_together(hunk, more_left) for hunk in right[-2:]):
            left.append(more_left)
        else:
            return left, right


def _together(one: LineChange, two: LineChange) -> bool:
    return one.overlaps(two) or (one.start == one.end == two.start == two.end)


def _apply(base: Sequence[bytes], hunks: Sequence[LineChange], start: int, end: int) -> list[bytes]:
    lines: list[bytes] = []
    for hunk in hunks:
        lines += [*base[start : hunk.start], *hunk.lines]
        start = hunk.end
    return [*lines, *base[start:end]]


def list_changes(base: Sequence[bytes], changed: Sequence[bytes]) -> list[LineChange]:
    """The changes that lead from one text to another, by lines, in order."""
    first = 0
    shortest = min(len(base), len(changed))
    while first < shortest and base[first] == changed[first]:
        first += 1
    last = 0
    while last < shortest - first and base[-1 - last] == changed[-1 - last]:
        last += 1
    old, new = base[first : len(base) - last], changed[first : len(changed) - last]
    if not old and not new:
        return []
    hunks: list[LineChange] = []
    at_old = at_new = 0
    for place_old, place_new in [*_anchors(old, new), (len(old), len(new))]:
        hunks += _block_changes(first + at_old, old[at_old:place_old], new[at_new:place_new])
        at_old, at_new = place_old + 1, place_new + 1
    return hunks


def _anchors(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Positions of lines that occur once in both texts, ascending in both. A large block is split there."""
    if len(old) * len(new) <= _MAX_BLOCK_SIZE:
        return []
    counts_old, counts_new = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(new) if counts_new[line] == 1}
    pairs = [(place, places[line]) for place, line in enumerate(old) if counts_old[line] == 1 and line in places]
    # Longest increasing subsequence: `ends` has the smallest final position for each length.
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for number, (_old, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def _block_changes(first: int, old: Sequence[bytes], new: Sequence[bytes]) -> list[LineChange]:
    """The hunks of a block that begins at line `first` of the base."""
    if not old and not new:
        return []
    counts = Counter(new)
    pairs = sum(counts[line] for line in old)
    if not pairs:
        return _line_by_line(first, first + len(old), new)
    if len(old) * len(new) > _MAX_BLOCK_SIZE or pairs > _MAX_COMPARISONS:
        return [LineChange(first, first + len(old), new)]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    hunks: list[LineChange] = []
    for kind, start, end, low, high in matcher.get_opcodes():
        if kind != "equal":
            hunks += _line_by_line(first + start, first + end, new[low:high])
    return hunks


def _line_by_line(start: int, end: int, lines: Sequence[bytes]) -> list[LineChange]:
    """Hunks for a block with as many lines as before: one hunk per changed line."""
    if end - start != len(lines):
        return [LineChange(start, end, lines)]
    return [LineChange(start + at, start + at + 1, [line]) for at, line in enumerate(lines)]


def _join_lines(lines: Sequence[bytes]) -> bytes:
    """Join lines. A last line without a line break gets one if another line now follows it."""
    ended = [line if line.endswith((b"\n", b"\r")) else line + b"\n" for line in lines[:-1]]
    return b"".join([*ended, *lines[-1:]])
