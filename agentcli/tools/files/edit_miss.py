"""The error message for a text that is missing or not unique. Pure.

Shows the nearest lines of the file with their numbers, and marks the differing characters.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice
from operator import eq

from agentcli.core.messages import clean_text
from agentcli.core.text.plaintext import visible_text

MAX_COUNTED = 10_000
_MAX_LISTED = 50
_MAX_QUOTED = 6
_MAX_SEARCHED = 100_000
_MAX_COMPARED = 400
"""Lines compared character by character when searching the nearest one; others are filtered by cheaper means."""
_MAX_SHOWN = 30
_MAX_MARKED = 8
_MAX_ALIGNED = 400
_MAX_OF_A_LINE = 500
_MAX_CELLS = 400
_ALIKE = 0.5
_SAME_SHARE = 0.3
"""Minimum share of characters in equal lines, if the text as a whole is less similar."""
_MAX_JUDGED = 1_500
_MAX_LIKELY = 4
"""Places that are compared character by character."""
_LEGEND = "Differences, [-only in old_string-] {+only in the file+}:"
_ADVICE = "Read it again and copy the text exactly."


def line_number(text: str, position: int) -> int:
    return text.count("\n" if "\n" in text else "\r", 0, position) + 1


def ambiguity_message(shown: str, text: str, positions: list[int]) -> str:
    lines = _lines(text)
    numbers = list(dict.fromkeys(line_number(text, position) for position in positions[:_MAX_LISTED]))
    count = f"{len(positions):,}" if len(positions) <= MAX_COUNTED else f"more than {MAX_COUNTED:,}"
    listed = ", ".join(map(str, numbers)) + (" …" if len(positions) > _MAX_LISTED else "")
    quoted: list[str] = []
    last = 0
    for number in numbers[:_MAX_QUOTED]:
        first = max(last, number - 2)
        quoted += ["--"] if first > last or not quoted else []
        quoted += _number_lines(lines, first, number + 1, widest=160)
        last = number + 1
    return (
        f"old_string occurs {count} times in {shown}: lines {listed}. Add surrounding lines to old_string to make it "
        "unique, or set replace_all.\n" + "\n".join(quoted)
    )


def miss_message(shown: str, text: str, old: str, new: str) -> str:
    lines, wanted = _lines(text), old.split("\n")
    message = f"old_string was not found in {shown}."
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return f"{message} It begins with line numbers as Read shows them; leave them and the tab after them out."
    plain = text.replace("\r\n", "\n")
    # If new_string is part of old_string, it is there before the edit too.
    if len(new.strip()) > 3 and new.strip() not in old and (at := plain.find(new)) >= 0:
        message += f" But new_string is already there, at line {plain.count(chr(10), 0, at) + 1}: was this done before?"
    elif "\\" in old and _unescape(old) in plain:
        return (
            f"{message} It is escaped once too often: it has a backslash and a letter where the file has the character."
        )
    start = _nearest(lines, wanted)
    if start is None:
        large = len(lines) > _MAX_SEARCHED or max(map(len, lines)) > _MAX_OF_A_LINE
        nothing = "No part of it was found, but the file is too large to compare all of it"
        return f"{message} {nothing if large else 'Nothing in the file is like it'}. {_ADVICE}"
    stop = min(len(lines), start + len(wanted))
    found = lines[start:stop]
    span = f"lines {start + 1}–{stop}" if stop - start > 1 else f"line {start + 1}"
    return "\n".join(
        [
            f"{message} The nearest text is at {span}:{_hint(wanted, found)}",
            *_number_lines(lines, start, min(stop, start + _MAX_SHOWN)),
            *_differences(wanted, found, start + 1),
        ]
    )


def _unescape(old: str) -> str:
    for escape, char in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\\\", "\\")):
        old = old.replace(escape, char)
    return old


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n") if "\n" in text else text.split("\r")


def _number_lines(lines: list[str], first: int, stop: int, widest: int = _MAX_CELLS) -> list[str]:
    return [
        f"{first + index + 1}\t{_make_visible(line[:widest])}{'…' if len(line) > widest else ''}"
        for index, line in enumerate(lines[first:stop])
    ]


def _make_visible(text: str) -> str:
    return clean_text(visible_text(text))


def _hint(wanted: list[str], found: list[str]) -> str:
    if [line.strip() for line in wanted] == [line.strip() for line in found]:
        return " (it differs only in indentation or trailing blanks)"
    if "".join("".join(wanted).split()) == "".join("".join(found).split()):
        return " (it differs only in white space)"
    if "\n".join(wanted).casefold() == "\n".join(found).casefold():
        return " (it differs only in upper and lower case)"
    return ""


def _differences(wanted: list[str], found: list[str], first: int) -> list[str]:
    marked = list(islice(_marks(wanted[:_MAX_ALIGNED], found[:_MAX_ALIGNED], first), _MAX_MARKED + 1))
    if not marked:
        return []
    more = ["… and more"] if len(marked) > _MAX_MARKED else []
    return [_LEGEND, *marked[:_MAX_MARKED], *more]


def _marks(wanted: list[str], found: list[str], first: int) -> Iterator[str]:
    # Blanks at the ends must not prevent the comparison of matching lines.
    left, right = [line.strip() for line in wanted], [line.strip() for line in found]
    last = len(wanted) - 1
    for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right).get_opcodes():
        paired = min(b - a, d - c)
        for offset in range(paired):
            one, other = wanted[a + offset], found[c + offset]
            if tag == "equal" and one == other:
                continue
            text = _mark(one[:_MAX_CELLS], other[:_MAX_CELLS], open_start=a + offset == 0, open_end=a + offset == last)
            if text:
                yield f"{first + c + offset}: {text}"
        yield from (f"only in old_string: {_make_visible(line[:_MAX_CELLS])}" for line in wanted[a + paired : b])
        yield from (f"{number}: only in the file" for number in range(first + c + paired, first + d))


def _mark(wanted: str, found: str, *, open_start: bool, open_end: bool) -> str:
    """Both lines merged, with marked differences. Text of the file beyond either end is no difference."""
    codes = difflib.SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes()
    if open_start and codes and codes[0][0] == "insert":
        codes = codes[1:]
    if open_end and codes and codes[-1][0] == "insert":
        codes = codes[:-1]
    if all(code[0] == "equal" for code in codes):
        return ""
    if sum(code[2] - code[1] for code in codes if code[0] == "equal") < len(wanted) / 3:
        return f"[-{_make_visible(wanted)}-]"
    pieces: list[str] = []
    for tag, a, b, c, d in codes:
        if tag == "equal":
            pieces.append(_make_visible(wanted[a:b]))
            continue
        pieces.append(f"[-{_spell_out(wanted[a:b])}-]" if b > a else "")
        pieces.append(f"{{+{_spell_out(found[c:d])}+}}" if d > c else "")
    return "".join(pieces)


def _spell_out(text: str) -> str:
    """Make differences visible: blanks get a symbol, confusable characters their code."""
    text = "".join(
        char if char.isascii() else f"{char if char.isprintable() else ''}<U+{ord(char):04X}>" for char in text
    )
    return visible_text(text.replace(" ", "·").replace("\t", "\\t").replace("\r", "\\r"))


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Index of the line where the wanted text would begin; None if nothing is similar."""
    stripped, keys = [line.strip() for line in lines], [line.strip() for line in wanted]
    places: dict[str, list[int]] = {key: [] for key in keys if key}
    for at, line in enumerate(stripped):
        if line in places:
            places[line].append(at)
    # Rare exact lines are the best hint for the position of the rest.
    anchors = sorted((len(places[key]), index) for index, key in enumerate(keys) if key and places[key])
    starts = {max(0, at - index) for _count, index in anchors[:4] for at in places[keys[index]][:20]}
    if not starts and places and len(lines) <= _MAX_SEARCHED:
        index, key = max(enumerate(keys), key=lambda item: len(item[1]))
        starts = {max(0, at - index) for at in _most_alike(stripped, key)}
    if not starts:
        return None
    likely = sorted(starts, key=lambda start: (-sum(map(eq, stripped[start : start + len(keys)], keys)), start))
    best = max(likely[:_MAX_LIKELY], key=lambda start: _likeness(stripped[start : start + len(keys)], keys))
    return best if _is_similar(stripped[best : best + len(keys)], keys) else None


def _is_similar(window: list[str], keys: list[str]) -> bool:
    """Whether a place is worth showing: one common closing bracket is not enough."""
    same = sum(map(len, set(window) & set(keys)))
    return same >= _SAME_SHARE * sum(map(len, keys)) or _likeness(window, keys) >= _ALIKE


def _likeness(window: list[str], keys: list[str]) -> float:
    one, other = ("\n".join(filter(None, part))[:_MAX_JUDGED] for part in (window, keys))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _most_alike(stripped: list[str], key: str) -> list[int]:
    """The line most like the wanted one, among those that share the most letters with it."""
    letters = set(key)
    ranked = sorted(
        range(len(stripped)), key=lambda at: -len(letters & set(stripped[at])) + abs(len(stripped[at]) - len(key)) / 4
    )
    texts = {stripped[at][:_MAX_OF_A_LINE]: at for at in reversed(ranked[:_MAX_COMPARED])}
    return [texts[text] for text in difflib.get_close_matches(key[:_MAX_OF_A_LINE], texts, n=1, cutoff=_ALIKE)]
