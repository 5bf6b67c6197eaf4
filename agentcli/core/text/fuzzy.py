"""Fuzzy matching of a short query against names and paths: characters in order, gaps allowed, best score wins.

File search, menus and pickers share this scoring. Pure text; never accesses files. A lower-case query ignores case, an
upper-case letter makes the whole query case-sensitive.
"""

from __future__ import annotations

from dataclasses import dataclass

_MATCH = 16
_RUN = 8
_SEGMENT_START = 10
_WORD_START = 8
_HUMP = 7
_FIRST_FACTOR = 2
"""The start of a match counts more than its continuation."""
_IN_NAME = 2
_NAME_END = 4
"""Bonus for a match that ends before an extension or a slash, or at the end."""
_GAP = 2
"""Penalty for a gap, besides one per character of it."""
_NEVER = 10**9
_DELIMITERS = frozenset("/_-. ,:()[]@+")


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    score: int
    positions: tuple[int, ...]
    """Positions of the query's characters in the text."""


def is_case_sensitive(query: str) -> bool:
    return query != query.lower()


def fold_case(text: str) -> str:
    """Lower case with the same length: positions are the same as in the text."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def fuzzy_match(query: str, text: str) -> FuzzyMatch | None:
    """The best match of a query in a text; None if its characters do not occur in this order."""
    if not query:
        return FuzzyMatch(0, ())
    return best_match(query, text, text if is_case_sensitive(query) else fold_case(text))


def best_match(query: str, text: str, compared: str) -> FuzzyMatch | None:
    """Like `fuzzy_match`, for callers that have the folded text. `query` must not be empty.

    Finds the best of all alignments: for each character of the query and each possible position, the best score up to
    there. Only positions with that character are examined, and only as far as the rest of the query still fits.
    """
    limits = _last_places(query, compared)
    if limits is None:
        return None
    name_start = text.rfind("/", 0, len(text) - 1) + 1
    rows: list[list[tuple[int, int, int]]] = []
    """For each character of the query: position, score, and the entry of the previous row that it follows."""
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
                # An adjacent position continues a run; all earlier ones are before a gap.
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
    return _trace([(place, score + _end_bonus(text, place), entry) for place, score, entry in rows.pop()], rows)


def _last_places(query: str, compared: str) -> list[int] | None:
    """The last position of each character that leaves room for the rest; None if they do not fit."""
    places: list[int] = []
    end = len(compared)
    for char in reversed(query):
        end = compared.rfind(char, 0, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _end_bonus(text: str, place: int) -> int:
    return _NAME_END if place + 1 == len(text) or text[place + 1] in "/." else 0


def _trace(last: list[tuple[int, int, int]], rows: list[list[tuple[int, int, int]]]) -> FuzzyMatch:
    place, score, entry = max(last, key=lambda each: each[1])
    positions = [place]
    for row in reversed(rows):
        place, _score, entry = row[entry]
        positions.append(place)
    return FuzzyMatch(score, tuple(reversed(positions)))


def _bonus(text: str, place: int) -> int:
    """Bonus for a character that begins a word, as users tend to type these."""
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
