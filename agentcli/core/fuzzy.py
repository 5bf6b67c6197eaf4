"""Fuzzy matching of a short query against names and paths: the characters in order, gaps allowed, the best place wins.

Owns the one idea of "how good is this match" that file search, menus and pickers share. Pure text; must never look at
files. Lower case in a query matches both cases, an upper-case letter makes the whole query exact about case.
"""

from __future__ import annotations

from dataclasses import dataclass

_MATCH = 16
_RUN = 8
_SEGMENT_START = 10
_WORD_START = 8
_HUMP = 7
_FIRST_FACTOR = 2
"""Where a match begins counts more than where it goes on."""
_IN_NAME = 2
_NAME_END = 4
"""Before an extension or a slash."""
_GAP = 2
"""For a gap at all, besides one for each character of it."""
_DELIMITERS = frozenset("/_-. ,:()[]@+")


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    score: int
    positions: tuple[int, ...]
    """Of the query's characters in the text."""


def is_case_sensitive(query: str) -> bool:
    return query != query.lower()


def folded(text: str) -> str:
    """Lower case, one character for each: positions in it are positions in the text."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def fuzzy_match(query: str, text: str) -> FuzzyMatch | None:
    """The best match of a query in one text; None if its characters do not occur in this order."""
    if not query:
        return FuzzyMatch(0, ())
    return best_match(query, text, text if is_case_sensitive(query) else folded(text))


def best_match(query: str, text: str, compared: str) -> FuzzyMatch | None:
    """As `fuzzy_match`, for callers that have the folded text at hand. `query` must not be empty.

    Finds the best of all alignments: for each character of the query and each place it may be at, the best score of
    everything up to there. Only places where the character really is are looked at.
    """
    name_start = text.rfind("/", 0, len(text) - 1) + 1
    rows: list[list[tuple[int, int, int]]] = []
    """For each character of the query: place, score, and which entry of the row before it follows."""
    lowest = 0
    for index, char in enumerate(query):
        row: list[tuple[int, int, int]] = []
        before = rows[-1] if rows else []
        reached, best, best_entry = 0, 0, -1
        last = index == len(query) - 1
        place = compared.find(char, lowest)
        while place >= 0:
            score = _MATCH + _bonus(text, place) * (1 if index else _FIRST_FACTOR)
            if place >= name_start:
                score += _IN_NAME
            if last and (place + 1 == len(text) or text[place + 1] in "/."):
                score += _NAME_END
            if index == 0:
                row.append((place, score, -1))
            else:
                adjoining = -1
                while reached < len(before) and before[reached][0] < place:
                    if before[reached][0] == place - 1:
                        adjoining = reached
                    elif best_entry < 0 or before[reached][1] + before[reached][0] > best:
                        best, best_entry = before[reached][1] + before[reached][0], reached
                    reached += 1
                choice, entry = (best - place + 1 - _GAP, best_entry) if best_entry >= 0 else (-(10**9), -1)
                if adjoining >= 0:
                    if before[adjoining][1] + _RUN >= choice:
                        choice, entry = before[adjoining][1] + _RUN, adjoining
                    if best_entry < 0 or before[adjoining][1] + before[adjoining][0] > best:
                        best, best_entry = before[adjoining][1] + before[adjoining][0], adjoining
                if entry >= 0:
                    row.append((place, score + choice, entry))
            place = compared.find(char, place + 1)
        if not row:
            return None
        rows.append(row)
        lowest = row[0][0] + 1
    return _traced(rows)


def _traced(rows: list[list[tuple[int, int, int]]]) -> FuzzyMatch:
    entry = max(range(len(rows[-1])), key=lambda each: rows[-1][each][1])
    score = rows[-1][entry][1]
    positions: list[int] = []
    for row in reversed(rows):
        place, _score, entry = row[entry]
        positions.append(place)
    return FuzzyMatch(score, tuple(reversed(positions)))


def _bonus(text: str, place: int) -> int:
    """For what stands before: a character that begins something is one that people type."""
    if place == 0:
        return _SEGMENT_START
    before = text[place - 1]
    if before == "/":
        return _SEGMENT_START
    if before in _DELIMITERS:
        return _WORD_START
    here = text[place]
    if (before.islower() and here.isupper()) or (here.isdigit() and not before.isdigit()):
        return _HUMP
    return 0
