"""What to say when a text to replace is not there, or there too often: what the next try needs, and no more. Pure.

The nearest lines of the file as they are now, with their numbers, and what differs, marked to the character.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice

from agentcli.core.messages import clean_text
from agentcli.core.plaintext import visible_text

MOST_COUNTED = 10_000
_MOST_LISTED = 20
_MOST_QUOTED = 6
_MOST_SEARCHED = 20_000
_MOST_COMPARED = 400
"""Lines that are compared letter by letter when looking for the nearest one; the rest is filtered by cheaper means."""
_MOST_SHOWN = 30
_MOST_MARKED = 8
_MOST_ALIGNED = 400
_WIDEST = 400


def line_number(text: str, position: int) -> int:
    return text.count("\n" if "\n" in text else "\r", 0, position) + 1


def ambiguity(shown: str, text: str, positions: list[int]) -> str:
    lines = _lines(text)
    numbers = [line_number(text, position) for position in positions[:_MOST_LISTED]]
    listed = ", ".join(map(str, numbers)) + (" and more" if len(positions) > _MOST_LISTED else "")
    count = f"{len(positions):,}" if len(positions) <= MOST_COUNTED else f"more than {MOST_COUNTED:,}"
    quoted: list[str] = []
    for number in dict.fromkeys(numbers[:_MOST_QUOTED]):
        quoted += ["--", *_numbered(lines, max(0, number - 2), number + 1, widest=160)]
    return (
        f"old_string occurs {count} times in {shown}: lines {listed}. Add surrounding lines to old_string to "
        "make it unique, or set replace_all.\n" + "\n".join(quoted)
    )


def miss(shown: str, text: str, old: str, new: str) -> str:
    lines, wanted = _lines(text), old.split("\n")
    message = f"old_string was not found in {shown}."
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return f"{message} It begins with line numbers as Read shows them; leave them and the tab after them out."
    plain = text.replace("\r\n", "\n")
    if len(new.strip()) > 3 and (at := plain.find(new)) >= 0:
        message += f" But new_string is already there, at line {plain.count(chr(10), 0, at) + 1}: was this done before?"
    elif "\\" in old and _unescaped(old) in plain:
        return (
            f"{message} It is escaped once too often: it has a backslash and a letter where the file has the character."
        )
    start = _nearest(lines, wanted)
    if start is None:
        return f"{message} Nothing in the file is like it. Read it again and copy the text exactly."
    stop = min(len(lines), start + len(wanted))
    found = lines[start:stop]
    span = f"lines {start + 1}–{stop}" if stop - start > 1 else f"line {start + 1}"
    return "\n".join(
        [
            f"{message} The nearest text is at {span}:{_hint(wanted, found)}",
            *_numbered(lines, start, min(stop, start + _MOST_SHOWN)),
            *_differences(wanted, found, start + 1),
        ]
    )


def _unescaped(old: str) -> str:
    for escape, char in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\\\", "\\")):
        old = old.replace(escape, char)
    return old


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n") if "\n" in text else text.split("\r")


def _numbered(lines: list[str], first: int, stop: int, widest: int = _WIDEST) -> list[str]:
    return [
        f"{first + index + 1}\t{_shown(line[:widest])}{'…' if len(line) > widest else ''}"
        for index, line in enumerate(lines[first:stop])
    ]


def _shown(text: str) -> str:
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
    marked = list(islice(_marks(wanted[:_MOST_ALIGNED], found[:_MOST_ALIGNED], first), _MOST_MARKED + 1))
    if not marked:
        return []
    more = ["… and more"] if len(marked) > _MOST_MARKED else []
    return ["Differences, [-only in old_string-] {+only in the file+}:", *marked[:_MOST_MARKED], *more]


def _marks(wanted: list[str], found: list[str], first: int) -> Iterator[str]:
    # Blanks at the ends must not keep lines that belong together from being compared with one another.
    left, right = [line.strip() for line in wanted], [line.strip() for line in found]
    last = len(wanted) - 1
    for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right).get_opcodes():
        paired = min(b - a, d - c)
        for offset in range(paired):
            one, other = wanted[a + offset], found[c + offset]
            if tag == "equal" and one == other:
                continue
            text = _marked(one[:_WIDEST], other[:_WIDEST], open_start=a + offset == 0, open_end=a + offset == last)
            if text:
                yield f"{first + c + offset}: {text}"
        yield from (f"only in old_string: {_shown(line[:_WIDEST])}" for line in wanted[a + paired : b])
        yield from (f"{number}: only in the file" for number in range(first + c + paired, first + d))


def _marked(wanted: str, found: str, *, open_start: bool, open_end: bool) -> str:
    """Both lines in one, to the character. What the file has before the beginning or after the end is no difference."""
    codes = difflib.SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes()
    if open_start and codes and codes[0][0] == "insert":
        codes = codes[1:]
    if open_end and codes and codes[-1][0] == "insert":
        codes = codes[:-1]
    if all(code[0] == "equal" for code in codes):
        return ""
    if sum(code[2] - code[1] for code in codes if code[0] == "equal") < len(wanted) / 3:
        return f"[-{_shown(wanted)}-]"
    pieces: list[str] = []
    for tag, a, b, c, d in codes:
        if tag == "equal":
            pieces.append(_shown(wanted[a:b]))
            continue
        pieces.append(f"[-{_legible(wanted[a:b])}-]" if b > a else "")
        pieces.append(f"{{+{_legible(found[c:d])}+}}" if d > c else "")
    return "".join(pieces)


def _legible(text: str) -> str:
    """What differs must be told apart: blanks get a form, and what looks like something else its code."""
    names = {" ": "·", "\t": "\\t", "\r": "\\r"}
    return "".join(
        names.get(char) or (char if char.isascii() and char.isprintable() else _coded(char)) for char in text
    )


def _coded(char: str) -> str:
    return f"{char}<U+{ord(char):04X}>" if char.isprintable() else f"<U+{ord(char):04X}>"


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """The index of the line at which the wanted text would begin if it were there; None if nothing is alike."""
    stripped, keys = [line.strip() for line in lines], [line.strip() for line in wanted]
    places: dict[str, list[int]] = {key: [] for key in keys if key}
    if not places:
        return None
    for at, line in enumerate(stripped):
        if line in places:
            places[line].append(at)
    # Lines that are there exactly, and rarely, say best where the rest should be.
    anchors = sorted((len(places[key]), index) for index, key in enumerate(keys) if key and places[key])
    starts = {max(0, at - index) for _count, index in anchors[:4] for at in places[keys[index]][:20]}
    if starts:
        return max(sorted(starts), key=lambda start: _common(stripped[start : start + len(keys)], keys))
    if len(lines) > _MOST_SEARCHED:
        return None
    index, key = max(enumerate(keys), key=lambda item: len(item[1]))
    best = _most_alike(stripped, key)
    return None if best is None else max(0, best - index)


def _common(window: list[str], keys: list[str]) -> float:
    same = sum(one == other for one, other in zip(window, keys, strict=False) if other)
    if len(keys) > 50:
        return same
    return same + sum(
        difflib.SequenceMatcher(None, one[:200], other[:200]).quick_ratio()
        for one, other in zip(window, keys, strict=False)
        if one != other
    )


def _most_alike(stripped: list[str], key: str) -> int | None:
    letters = set(key)
    ranked = sorted(
        range(len(stripped)), key=lambda at: -len(letters & set(stripped[at])) + abs(len(stripped[at]) - len(key)) / 4
    )
    best, score = None, 0.5
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(key[:500])
    for at in ranked[:_MOST_COMPARED]:
        matcher.set_seq1(stripped[at][:500])
        if matcher.quick_ratio() > score and (ratio := matcher.ratio()) > score:
            best, score = at, ratio
    return best
