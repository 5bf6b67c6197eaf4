"""Rows of a picker, and the search in them. Pure: no widgets here.

Each word of a query must match a row: fuzzily in its label, or literally in its detail or group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import best_match, folded, is_case_sensitive
from agentcli.tui.screens.text import safe

T = TypeVar("T")

_IN_DETAIL = 8
"""Score per letter matched outside of the label: less than for a match in the label."""


@frozen
class Row(Generic[T]):
    value: T
    label: str
    detail: str = ""
    mark: str = ""
    group: str = ""
    """Group name. Rows of a group are consecutive; the name is shown above them while there is no query."""
    disabled: str = ""
    """Why it cannot be chosen; shown instead of the detail."""


@dataclass(frozen=True, slots=True)
class RowEntry(Generic[T]):
    """A row with text that is safe to show, and its text normalised for searching."""

    row: Row[T]
    label: str
    detail: str
    folded_label: str
    folded_rest: str


@dataclass(frozen=True, slots=True)
class FoundEntry(Generic[T]):
    """A shown entry, and the positions of its matched characters."""

    entry: RowEntry[T]
    label_places: tuple[int, ...] = ()
    detail_places: tuple[int, ...] = ()


def entries_of(rows: Iterable[Row[T]]) -> list[RowEntry[T]]:
    made = []
    for row in rows:
        label, detail = safe(row.label), safe(row.disabled or row.detail)
        made.append(RowEntry(row, label, detail, folded(label), folded(f"{detail}\n{row.group}")))
    return made


class RowSearch(Generic[T]):
    """One query over many entries, in slices: searching 10,000 entries at once would delay a key."""

    SLICE = 2000

    def __init__(self, entries: Sequence[RowEntry[T]], query: str) -> None:
        self._entries = entries
        self._words = query.split()
        self._exact = is_case_sensitive(query)
        self._scored: list[tuple[int, int, FoundEntry[T]]] = []
        self._place = 0

    def step(self) -> bool:
        end = min(len(self._entries), self._place + self.SLICE)
        for number in range(self._place, end):
            hit = _match(self._entries[number], self._words, self._exact)
            if hit is not None:
                self._scored.append((-hit[0], number, hit[1]))
        self._place = end
        return end == len(self._entries)

    def finish(self) -> list[FoundEntry[T]]:
        while not self.step():
            pass
        return [found for _score, _number, found in sorted(self._scored, key=lambda item: item[:2])]


def find(entries: Sequence[RowEntry[T]], query: str) -> list[FoundEntry[T]]:
    """Entries that match a query, the best first; all entries in their order if the query is empty."""
    if not query.strip():
        return [FoundEntry(entry) for entry in entries]
    return RowSearch(entries, query).finish()


def _match(entry: RowEntry[T], words: Sequence[str], exact: bool) -> tuple[int, FoundEntry[T]] | None:
    label = entry.label if exact else entry.folded_label
    rest = f"{entry.detail}\n{entry.row.group}" if exact else entry.folded_rest
    score = 0
    in_label: tuple[int, ...] = ()
    in_detail: tuple[int, ...] = ()
    for word in words:
        match = best_match(word, entry.label, label)
        # Letters scattered over a long label match almost anything, so they do not count.
        if match is not None and match.positions[-1] - match.positions[0] < 3 * len(word) + 4:
            score += match.score
            in_label += match.positions
            continue
        place = rest.find(word)
        if place < 0:
            return None
        score += _IN_DETAIL * len(word)
        if place < len(entry.detail):
            in_detail += tuple(range(place, place + len(word)))
    return score, FoundEntry(entry, in_label, in_detail)
