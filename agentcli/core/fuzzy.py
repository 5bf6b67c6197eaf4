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
_NEVER = 10**9
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
    everything up to there. Only places where the character really is are looked at, and only as far as the rest of
    the query still fits behind.
    """
    limits = _last_places(query, compared)
    if limits is None:
        return None
    name_start = text.rfind("/", 0, len(text) - 1) + 1
    rows: list[list[tuple[int, int, int]]] = []
    """For each character of the query: place, score, and which entry of the row before it follows."""
    before: list[tuple[int, int, int]] = []
    for char, limit in zip(query, limits, strict=True):
        row: list[tuple[int, int, int]] = []
        place = compared.find(char, before[0][0] + 1 if rows else 0, limit + 1)
        reached, best, best_entry, adjoining = 0, -_NEVER, -1, -1
        while place >= 0:
            score = _MATCH + _bonus(text, place) * (1 if rows else _FIRST_FACTOR)
            if place >= name_start:
                score += _IN_NAME
            if not rows:
                row.append((place, score, -1))
            else:
                # What directly adjoins this place continues a run; all before it is behind a gap.
                while reached < len(before) and before[reached][0] < place:
                    if adjoining >= 0 and before[adjoining][1] + before[adjoining][0] > best:
                        best, best_entry = before[adjoining][1] + before[adjoining][0], adjoining
                    adjoining = reached
                    reached += 1
                place_before, score_before, _entry = before[adjoining]
                if place_before != place - 1:
                    if score_before + place_before > best:
                        best, best_entry = score_before + place_before, adjoining
                    row.append((place, score + best - place + 1 - _GAP, best_entry))
                elif best - place + 1 - _GAP > score_before + _RUN:
                    row.append((place, score + best - place + 1 - _GAP, best_entry))
                else:
                    row.append((place, score + score_before + _RUN, adjoining))
            place = compared.find(char, place + 1, limit + 1)
        rows.append(row)
        before = row
    return _traced([(place, score + _ending(text, place), entry) for place, score, entry in rows.pop()], rows)


def _last_places(query: str, compared: str) -> list[int] | None:
    """The last place for each character that leaves room for those behind it; None if they do not fit at all."""
    places: list[int] = []
    end = len(compared)
    for char in reversed(query):
        end = compared.rfind(char, 0, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _ending(text: str, place: int) -> int:
    return _NAME_END if place + 1 == len(text) or text[place + 1] in "/." else 0


def _traced(last: list[tuple[int, int, int]], rows: list[list[tuple[int, int, int]]]) -> FuzzyMatch:
    place, score, entry = max(last, key=lambda each: each[1])
    positions = [place]
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
