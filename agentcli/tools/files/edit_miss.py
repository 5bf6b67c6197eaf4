"""The error message for a text that is missing or not unique. Pure.

Shows the nearest lines of the file with their numbers, and marks the differing characters.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice

from agentcli.core.frozen import frozen
from agentcli.core.messages import clean_text
from agentcli.core.text.plaintext import visible_text

MAX_COUNTED = 10_000
_MAX_LISTED = 200
_MAX_QUOTED = 6
_MAX_SEARCHED = 20_000
_MAX_COMPARED = 400
"""Lines compared character by character when searching the nearest one; others are filtered by cheaper means."""
_MAX_SHOWN = 30
_MAX_MARKED = 8
_MAX_ALIGNED = 400
_MAX_OF_A_LINE = 500
_WIDEST = 400
_MARGIN = 20
_MAX_PIECES = 16
_RAREST = 4
_MAX_PLACES = 20
"""Limit for each of the rarest pieces."""
_MAX_PIECES_COMPARED = 10
_AROUND = 400
"""Characters around such a place that must be similar."""
_ALIKE = 0.5
_SAME_SHARE = 0.3
"""Minimum share of characters in equal lines, if the text as a whole is less similar."""
_MAX_JUDGED = 1_500
_GRAM = 8
_LEGEND = "Differences, [-only in old_string-] {+only in the file+}:"
_ADVICE = "Read it again and copy the text exactly."


def line_number(text: str, position: int) -> int:
    return text.count("\n" if "\n" in text else "\r", 0, position) + 1


def ambiguity_message(shown: str, text: str, positions: list[int]) -> str:
    lines = _lines(text)
    numbers = _line_numbers(text, positions)
    count = f"{len(positions):,}" if len(positions) <= MAX_COUNTED else f"more than {MAX_COUNTED:,}"
    quoted: list[str] = []
    last = 0
    for number in numbers[:_MAX_QUOTED]:
        first = max(last, number - 2)
        quoted += ["--"] if first > last or not quoted else []
        quoted += _numbered(lines, first, number + 1, widest=160)
        last = number + 1
    return (
        f"old_string occurs {count} times in {shown}: lines {_ranges(numbers)}. Add surrounding lines to old_string to "
        "make it unique, or set replace_all.\n" + "\n".join(quoted)
    )


def _line_numbers(text: str, positions: list[int]) -> list[int]:
    line_end = "\n" if "\n" in text else "\r"
    numbers: dict[int, None] = {}
    number, counted = 1, 0
    for position in positions:
        number += text.count(line_end, counted, position)
        counted = position
        numbers[number] = None
    return list(numbers)


def _ranges(numbers: list[int]) -> str:
    """`1, 3, 7–12`; two neighbours are not shortened to a range."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    words = [
        word
        for group in groups[:_MAX_LISTED]
        for word in ([f"{group[0]}–{group[-1]}"] if len(group) > 2 else map(str, group))
    ]
    more = sum(map(len, groups[_MAX_LISTED:]))
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def miss_message(shown: str, text: str, old: str, new: str) -> str:
    lines, wanted = _lines(text), old.split("\n")
    message = f"old_string was not found in {shown}."
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return f"{message} It begins with line numbers as Read shows them; leave them and the tab after them out."
    plain = text.replace("\r\n", "\n")
    # If new_string is part of old_string, it is there before the edit too.
    if len(new.strip()) > 3 and new.strip() not in old and (at := plain.find(new)) >= 0:
        message += f" But new_string is already there, at line {plain.count(chr(10), 0, at) + 1}: was this done before?"
    elif "\\" in old and _unescaped(old) in plain:
        return (
            f"{message} It is escaped once too often: it has a backslash and a letter where the file has the character."
        )
    start = _nearest(lines, wanted)
    piece = _nearest_piece("\n".join(lines), old) if start is None else None
    if piece is not None:
        start = max(0, piece.line - piece.wanted_line)
        if max(map(len, lines[start : start + len(wanted)])) > _WIDEST:
            return f"{message} {_inside_a_line(piece, lines[piece.line], wanted[piece.wanted_line])}"
    if start is not None and not _is_similar(lines[start : start + len(wanted)], wanted):
        start = None
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
            *_numbered(lines, start, min(stop, start + _MAX_SHOWN)),
            *_differences(wanted, found, start + 1),
        ]
    )


def _inside_a_line(piece: _Piece, line: str, wanted: str) -> str:
    """The relevant part of a line that is too long to show."""
    before = min(piece.wanted_column, _WIDEST // 2)
    wanted = wanted[piece.wanted_column - before :][:_WIDEST]
    start = max(0, piece.column - before)
    # Some extra on both sides: text missing in old_string moves its ends.
    first, stop = max(0, start - _MARGIN), min(len(line), start + len(wanted) + _MARGIN)
    found = line[first:stop]
    shown = f"{'…' if first else ''}{_shown(found)}{'…' if stop < len(line) else ''}"
    marked = _marked(wanted, found, open_start=True, open_end=True)
    text = f"The nearest text is in line {piece.line + 1}, about column {start + 1:,}:\n{shown}"
    return f"{text}\n{_LEGEND}\n{piece.line + 1}: {marked}" if marked else text


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
            text = _marked(one[:_WIDEST], other[:_WIDEST], open_start=a + offset == 0, open_end=a + offset == last)
            if text:
                yield f"{first + c + offset}: {text}"
        yield from (f"only in old_string: {_shown(line[:_WIDEST])}" for line in wanted[a + paired : b])
        yield from (f"{number}: only in the file" for number in range(first + c + paired, first + d))


def _marked(wanted: str, found: str, *, open_start: bool, open_end: bool) -> str:
    """Both lines merged, with marked differences. Text of the file beyond either end is no difference."""
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
    """Make differences visible: blanks get a symbol, confusable characters their code."""
    names = {" ": "·", "\t": "\\t", "\r": "\\r"}
    return "".join(
        names.get(char) or (char if char.isascii() and char.isprintable() else _coded(char)) for char in text
    )


def _coded(char: str) -> str:
    return f"{char}<U+{ord(char):04X}>" if char.isprintable() else f"<U+{ord(char):04X}>"


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Index of the line where the wanted text would begin; None if nothing is similar."""
    stripped, keys = [line.strip() for line in lines], [line.strip() for line in wanted]
    places: dict[str, list[int]] = {key: [] for key in keys if key}
    if not places:
        return None
    for at, line in enumerate(stripped):
        if line in places:
            places[line].append(at)
    # Rare exact lines are the best hint for the position of the rest.
    anchors = sorted((len(places[key]), index) for index, key in enumerate(keys) if key and places[key])
    starts = {max(0, at - index) for _count, index in anchors[:4] for at in places[keys[index]][:20]}
    if starts:
        return max(sorted(starts), key=lambda start: _common(stripped[start : start + len(keys)], keys))
    if len(lines) > _MAX_SEARCHED:
        return None
    index, key = max(enumerate(keys), key=lambda item: len(item[1]))
    best = _most_alike(stripped, key)
    return None if best is None else max(0, best - index)


def _is_similar(window: list[str], wanted: list[str]) -> bool:
    """Whether a place is worth showing: one common closing bracket is not enough."""
    found, keys = ([line.strip() for line in part if line.strip()] for part in (window, wanted))
    same = sum(map(len, set(found) & set(keys)))
    if same >= _SAME_SHARE * sum(map(len, keys)):
        return True
    one, other = ("\n".join(part)[:_MAX_JUDGED] for part in (found, keys))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE


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
    best, score = None, _ALIKE
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(key[:_MAX_OF_A_LINE])
    for at in ranked[:_MAX_COMPARED]:
        matcher.set_seq1(stripped[at][:_MAX_OF_A_LINE])
        if matcher.quick_ratio() > score and (ratio := matcher.ratio()) > score:
            best, score = at, ratio
    return best


# Comparing characters is for short texts; searching for a word is fast even in many megabytes.


@frozen
class _Piece:
    """A position in the text and the matching position in the wanted text. Lines and columns start at 0."""

    line: int
    column: int
    wanted_line: int
    wanted_column: int


def _nearest_piece(text: str, wanted: str) -> _Piece | None:
    """The most similar place for `wanted`; None if no piece of it is in the text with similar surroundings."""
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    scored: list[tuple[float, int, int]] = []
    for at, offset in _places(text, wanted):
        _set(matcher, text, at, wanted, offset)
        scored.append((matcher.quick_ratio(), at, offset))
    best, score = None, _ALIKE
    for _quick, at, offset in sorted(scored, key=lambda one: (-one[0], one[1]))[:_MAX_PIECES_COMPARED]:
        _set(matcher, text, at, wanted, offset)
        if (ratio := matcher.ratio()) > score:
            best, score = (at, offset), ratio
    if best is None:
        return None
    return _Piece(*_line_and_column(text, best[0]), *_line_and_column(wanted, best[1]))


def _set(matcher: difflib.SequenceMatcher[str], text: str, at: int, wanted: str, offset: int) -> None:
    before = min(at, offset, _AROUND // 2)
    part = wanted[offset - before :][:_AROUND]
    matcher.set_seqs(text[at - before : at - before + len(part)], part)


def _places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Positions of the rarest pieces in the text and in the wanted text."""
    words = {found.group(): found.start() for found in re.finditer(r"\w{4,}", wanted)}
    grams = {wanted[at : at + _GRAM]: at for at in range(0, max(1, len(wanted) - _GRAM + 1), _GRAM // 2)}
    pieces = sorted(words, key=len, reverse=True)[:_MAX_PIECES]
    found = _rarest(text, pieces)
    where = words
    if not found:
        step = max(1, len(grams) // _MAX_PIECES)
        found, where = _rarest(text, [gram for gram in list(grams)[::step] if gram.strip()]), grams
    for piece in found:
        at = -1
        for _place in range(_MAX_PLACES):
            at = text.find(piece, at + 1)
            if at < 0:
                break
            yield at, where[piece]


def _rarest(text: str, pieces: list[str]) -> list[str]:
    counted = sorted((text.count(piece), piece) for piece in pieces)
    return [piece for count, piece in counted if count][:_RAREST]


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1
