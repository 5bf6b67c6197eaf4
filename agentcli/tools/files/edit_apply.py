"""Apply one replacement to a text: an exact match, with one exception. Pure.

Line endings match whichever kind the file has, since Read does not show them. The exception: if there is no exact
match, but exactly one place differs only in trailing blanks or typographic characters, that place is used and reported.
Characters that the replacement does not change keep the file's spelling. Indentation is never guessed.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice

from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.tools.files.disk import MAX_LOADED_SIZE

_MAX_LOOSE_LENGTH = 20_000
_MAX_TOKENS = 3_000
_ALIKE = (
    '"\u201c\u201d\u201e\u201f\u2033',
    "'\u2018\u2019\u201a\u201b\u2032",
    "-\u2010\u2011\u2012\u2013\u2014\u2212",
    " \u00a0\u2007\u2009\u202f",
)
_PLAIN = str.maketrans({char: chars[0] for chars in _ALIKE for char in chars[1:]})
_BLANKS_AT_END = lazy_pattern(r"[ \t]*(?=[\r\n]|\Z)")
_TOKEN = lazy_pattern(r"\w+|\W")

TextSpan = tuple[int, int]


@frozen
class Replacement:
    old: str
    new: str
    every: bool = False


@frozen
class Applied:
    text: str
    count: int
    line: int
    """Line number of the first match, in the old text."""
    note: str = ""
    """Which differences were ignored to find the match; empty if none."""


@frozen
class EditProblem:
    text: str
    summary: str


def apply(text: str, replacement: Replacement, shown: str) -> Applied | EditProblem:
    from agentcli.tools.files.edit_miss import MAX_COUNTED, ambiguity_message, line_number, miss_message

    old, new = replacement.old.replace("\r\n", "\n"), replacement.new.replace("\r\n", "\n")
    if replacement.every and "\r" not in text and (count := text.count(old)):
        if too_large := _too_large(text, old, new, count, shown):
            return too_large
        return Applied(text.replace(old, new), count, line_number(text, text.find(old)))
    found = _find_exact(text, old, apart=replacement.every)
    spans = list(found if replacement.every else islice(found, MAX_COUNTED + 1))
    if len(spans) == 1 or (spans and replacement.every):
        if too_large := _too_large(text, old, new, len(spans), shown):
            return too_large
        return Applied(_replace_spans(text, spans, old, new), len(spans), line_number(text, spans[0][0]))
    if spans:
        return EditProblem(ambiguity_message(shown, text, [start for start, _end in spans]), "ambiguous")
    if not replacement.every and len(old) <= _MAX_LOOSE_LENGTH and old.strip():
        loose = list(islice(_find_loose(text, old), 2))
        if len(loose) == 1:
            start, end = loose[0]
            note = _describe_overlooked(text[start:end], old)
            return Applied(_replace_spans(text, loose, old, new, loosely=True), 1, line_number(text, start), note)
    return EditProblem(miss_message(shown, text, old, new), "no match")


def _too_large(text: str, old: str, new: str, count: int, shown: str) -> EditProblem | None:
    """Refuse a result that is too large to be edited again: a few kilobytes of input can expand to gigabytes."""
    carriage_returns = new.count("\n") if "\r" in text else 0
    size = len(text) + count * (len(new) + carriage_returns - len(old))
    if size <= max(MAX_LOADED_SIZE, len(text)):
        return None
    return EditProblem(
        f"{shown} would grow to {size:,} characters, because old_string is in it {count:,} times; edited files have at "
        f"most {MAX_LOADED_SIZE:,}. Use a longer old_string.",
        "too large",
    )


def _find_exact(text: str, old: str, *, apart: bool) -> Iterator[TextSpan]:
    """Positions of `old`. `apart`: without overlaps, for replacing; else with overlaps, for detecting ambiguity."""
    if "\n" in old and "\r" in text:
        yield from _LineText(text).find(old, apart=apart)
        return
    at = text.find(old)
    while at >= 0:
        yield at, at + len(old)
        at = text.find(old, at + (len(old) if apart else 1))


def _find_loose(text: str, old: str) -> Iterator[TextSpan]:
    at_line_end = old[-1] in " \t"
    for start, end in _LineText(text, loosely=True).find(_strip_lines(old).translate(_PLAIN), apart=True):
        rest = _BLANKS_AT_END.match(text, end) if at_line_end else None
        if rest is not None or not at_line_end:
            yield start, rest.end() if rest else end


class _LineText:
    """A text with `\\n` at each line end and, if `loosely`, without trailing blanks and typographic characters. Each
    character has the same column as in the text."""

    def __init__(self, text: str, *, loosely: bool = False) -> None:
        lines = text.split("\r" if "\n" not in text else "\n")
        kept = [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]]
        if loosely:
            kept = [line.rstrip(" \t").translate(_PLAIN) for line in kept]
        self._plain = "\n".join(kept)
        self._starts, self._plain_starts = ([0, *accumulate(len(line) + 1 for line in each)] for each in (lines, kept))

    def find(self, wanted: str, *, apart: bool) -> Iterator[TextSpan]:
        """Places in the original text."""
        at = self._plain.find(wanted)
        while at >= 0:
            yield self._place(at), self._place(at + len(wanted))
            at = self._plain.find(wanted, at + (len(wanted) if apart else 1))

    def _place(self, at: int) -> int:
        line = bisect_right(self._plain_starts, at) - 1
        return self._starts[line] + at - self._plain_starts[line]


def _strip_lines(old: str) -> str:
    return "\n".join(line.rstrip(" \t") for line in old.split("\n"))


def _describe_overlooked(original: str, old: str) -> str:
    plain = original.replace("\r\n", "\n")
    kinds = []
    if len(_strip_lines(plain)) != len(plain) or _strip_lines(old) != old:
        kinds.append("trailing blanks")
    if _strip_lines(plain) != _strip_lines(old):
        kinds.append("typographic characters (quotes, dashes, no-break spaces)")
    return (
        f"old_string was not there exactly; it was matched overlooking {' and '.join(kinds)}. What new_string does not "
        "change was kept as it was in the file."
    )


def _replace_spans(text: str, spans: list[TextSpan], old: str, new: str, *, loosely: bool = False) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        piece = _carry_over(text[start:end], old, new, _line_end(text, start), loosely=loosely)
        pieces += [text[position:start], piece]
        position = end
    return "".join([*pieces, text[position:]])


def _carry_over(original: str, old: str, new: str, line_end: str, *, loosely: bool) -> str:
    """The new text for one match; parts that old and new share keep the file's spelling."""
    pairs, feeds = original.count("\r\n"), original.count("\n")
    if not loosely and (pairs == feeds if line_end == "\r\n" else pairs == 0):
        return new.replace("\n", line_end)
    if loosely:
        old = _strip_lines(old)
        units = re.findall(r"[ \t]*(?:\r\n|\n)|.", original, re.DOTALL)
        # Blanks at the very end belong to no character of the stripped text.
        units[len(old) - 1 :] = ["".join(units[len(old) - 1 :])]
    else:
        units = re.findall(r"\r\n|.", original, re.DOTALL)
    return merge_spelling(units, old, new, line_end)


def merge_spelling(units: list[str], old: str, new: str, line_end: str) -> str:
    """`new`, with the file's spelling of the parts it shares with `old`. There is one unit per character of `old`."""
    pieces: list[str] = []
    for equal, a, b, c, d in _operations(old, new):
        pieces.append("".join(units[a:b]) if equal else new[c:d].replace("\n", line_end))
    return "".join(pieces)


def _operations(old: str, new: str) -> Iterator[tuple[bool, int, int, int, int]]:
    """Equal and different parts as (equal, a, b, c, d): old[a:b] and new[c:d]."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    yield True, 0, head, 0, head
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    left, right = _TOKEN.findall(middle_old), _TOKEN.findall(middle_new)
    a = c = head
    if max(len(left), len(right)) > _MAX_TOKENS:
        yield False, a, len(old) - tail, c, len(new) - tail
    else:
        for tag, i, j, k, m in difflib.SequenceMatcher(None, left, right).get_opcodes():
            b, d = a + sum(map(len, left[i:j])), c + sum(map(len, right[k:m]))
            yield tag == "equal", a, b, c, d
            a, c = b, d
    yield True, len(old) - tail, len(old), len(new) - tail, len(new)


def _line_end(text: str, start: int) -> str:
    """The line ending at a position; a file may have several kinds."""
    at = text.find("\n", start)
    if at < 0:
        at = text.rfind("\n", 0, start)
    if at < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"
