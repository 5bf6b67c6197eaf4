"""Which removed line became which added one, and which words of it changed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

Spans = list[tuple[int, int]]
"""Stretches of characters, in order."""
Pair = tuple[int | None, int | None]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST = 500
_MOST_COMPARED = 40
"""Lines on one side: comparing each with each grows with the square."""
_ALIKE = 0.4
_MOST_CHANGED = 0.7
"""A line of which more than this changed is new: marking all of it marks nothing."""


def pairs(old: Sequence[str], new: Sequence[str], old_places: Sequence[int], new_places: Sequence[int]) -> list[Pair]:
    """Places that belong together, in order; None where a line has no partner.

    Lines that are alike are partners. Where several pairings are possible the one with the most alike lines wins;
    what is left between two pairs stands removed first, then added.
    """
    chosen = _alike(old, new)
    found: list[Pair] = []
    at_old = at_new = 0
    for left, right in [*chosen, (len(old), len(new))]:
        if at_old < left or at_new < right:
            # Lines that are not alike share rows where they can: half as much to scroll.
            found += zip_longest(old_places[at_old:left], new_places[at_new:right])
        if left < len(old):
            found.append((old_places[left], new_places[right]))
        at_old, at_new = left + 1, right + 1
    return found


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    if max(len(old), len(new), 1) > _MOST_COMPARED:
        return [(at, at) for at in range(min(len(old), len(new)))]
    words = [[Counter(_WORD.findall(text[:_LONGEST].strip())) for text in side] for side in (old, new)]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    likeness = [[_likeness(one, other) for other in words[1]] for one in words[0]]
    for left in range(len(old) - 1, -1, -1):
        for right in range(len(new) - 1, -1, -1):
            together = likeness[left][right] + best[left + 1][right + 1] if likeness[left][right] >= _ALIKE else 0.0
            best[left][right] = max(together, best[left + 1][right], best[left][right + 1])
    chosen: list[tuple[int, int]] = []
    left = right = 0
    while left < len(old) and right < len(new):
        value = best[left][right]
        if likeness[left][right] >= _ALIKE and value == likeness[left][right] + best[left + 1][right + 1]:
            chosen.append((left, right))
            left, right = left + 1, right + 1
        elif value == best[left + 1][right]:
            left += 1
        else:
            right += 1
    return chosen


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """The stretches of both lines that differ; none where the lines have little in common."""
    if len(old) > _LONGEST or len(new) > _LONGEST:
        return [], []
    before, after = _WORD.findall(old), _WORD.findall(new)
    spans: tuple[Spans, Spans] = ([], [])
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            _extend(spans[0], before, a, b)
            _extend(spans[1], after, c, d)
    for text, found in ((old, spans[0]), (new, spans[1])):
        if sum(end - start for start, end in found) > _MOST_CHANGED * max(1, len(text.strip())):
            return [], []
    return spans


def _extend(spans: Spans, words: Sequence[str], first: int, last: int) -> None:
    """Add the words from first to last; a single blank between two stretches belongs to them."""
    if first == last:
        return
    start = sum(map(len, words[:first]))
    end = start + sum(map(len, words[first:last]))
    if spans and start - spans[-1][1] <= 1 and not "".join(words[max(0, first - 1) : first]).strip():
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))
