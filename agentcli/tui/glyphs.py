"""Split text into glyphs: the characters painted together, what is painted for them, and their width in cells.

Terminals and Rich agree on the width of whole glyphs only: a base character with its marks, an emoji with its joiners.
`glyphs` is for text of models and programs, `clusters` for what is painted as it is: the prompt, rows of the screen.
Invisible characters that change how text reads (bidirectional controls, tags, joiners that join nothing) are spelled
out or dropped by `glyphs`, so that the counted width is the painted width.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size, split_graphemes

from agentcli.core.text.plaintext import TAB, visible_text

Glyph = tuple[str, str, int]
"""Source characters, painted text, and its width in cells. A tab is `("\\t", " ", 1)`: its width depends on the column,
which only the painter knows."""

EVEN = re.compile(
    "[^\n -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0377\u0384-\u038a\u0390-\u03a1\u03a3-\u0482\u048a-\u052f"
    "\u1e00-\u1f15\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u2319\u2460-\u25fc\u2713-\u2717\u2800-\u28ff]"
).search
"""Returns None if every character is one glyph of one cell."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINER, _EMOJI_STYLE, _TEXT_STYLE, _BLACK_FLAG = "\u200d", "\ufe0f", "\ufe0e", "\U0001f3f4"
_UNSEEN = frozenset((_JOINER, _EMOJI_STYLE, _TEXT_STYLE, "\u200c", "\u00ad"))
"""Harmless invisible characters, not painted where they have no effect."""
_MAX_MARKS = 8
"""Maximum number of marks painted on one base: no language uses more, and they would cover the lines around it."""
_MAX_LENGTH = 64
"""Maximum length of a glyph, several times the longest emoji. Without it a text of joiners takes quadratic time."""
_ASCII = {character: (character, character, 1) for character in map(chr, range(0x20, 0x7F))} | {"\t": ("\t", " ", 1)}


def clean(text: str) -> str:
    """Replace control characters (except line breaks and tabs) and lone surrogates by symbols."""
    if text.isascii():
        return visible_text(text)
    return _SURROGATE.sub("\ufffd", visible_text(text))


def width_of(text: str) -> int:
    """Width in cells of one line of text as `wrap` paints it (tab stops count from the beginning of the text)."""
    if EVEN(text) is None:
        return len(text)
    cells = 0
    for source, _shown, width in glyphs(text):
        cells += width if source != "\t" else TAB - cells % TAB
    return cells


def glyphs(text: str) -> list[Glyph]:
    found: list[Glyph] = []
    marks = 0
    place = 0
    while place < len(text):
        character = text[place]
        place += 1
        glyph = _ASCII.get(character)
        if glyph is not None:
            found.append(glyph)
            marks = 0
            continue
        if character == _JOINER and found and place < len(text) and _joins(found[-1], text[place]):
            _extend(found, character + text[place])
            place += 1
            continue
        width = get_character_cell_size(character)
        if _is_regional(character) and found and len(found[-1][0]) == 1 and _is_regional(found[-1][0]):
            _extend(found, character)
        elif width and character != "\u00ad":
            found.append((character, character, width))
            marks = 0
        elif found and found[-1][0] not in ("\t", " ") and _attaches(found[-1], character):
            marks += 1
            if marks <= _MAX_MARKS:
                _extend(found, character)
            else:
                _hide(found, character)
        elif found and (character in _UNSEEN or (marks > _MAX_MARKS and not found[-1][1] and _is_mark(character))):
            _hide(found, character)
        else:
            found.append(_alone(character))
            marks = 0
    return found


def _extend(found: list[Glyph], more: str) -> None:
    source, shown, _width = found[-1]
    shown += more
    found[-1] = (source + more, shown, cell_len(shown))


def _hide(found: list[Glyph], more: str) -> None:
    source, shown, cells = found[-1]
    if len(source) < _MAX_LENGTH:
        found[-1] = (source + more, shown, cells)
    else:
        found.append((more, "", 0))


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_pictograph(character: str) -> bool:
    return "\U0001f300" <= character <= "\U0001faff" or "\u2600" <= character <= "\u27bf" or character in "\u2b1b↔↕➡⬛"


def _joins(glyph: Glyph, following: str) -> bool:
    is_pictograph = glyph[1] == glyph[0] and _is_pictograph(glyph[0][0])
    return len(glyph[0]) < _MAX_LENGTH and is_pictograph and _is_pictograph(following)


def _attaches(glyph: Glyph, character: str) -> bool:
    """Whether a zero-width character is part of the glyph before it, and painted."""
    base = glyph[1][:1]
    if not base:
        return False
    if character == _EMOJI_STYLE:
        return len(glyph[1]) == 1 or _is_pictograph(base)
    if "\U0001f3fb" <= character <= "\U0001f3ff":
        return _is_pictograph(base)
    if "\U000e0020" <= character <= "\U000e007f":
        return base == _BLACK_FLAG
    if character == "\u200c":
        return True
    return character != _TEXT_STYLE and _is_mark(character)


def _is_mark(character: str) -> bool:
    return category(character)[0] == "M" or "\u1160" < character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff"


def _alone(character: str) -> Glyph:
    if character in _UNSEEN:
        return character, "", 0
    if _is_mark(character):
        shown = "◌" + character
        return character, shown, cell_len(shown)
    spelled = f"<U+{ord(character):04X}>"
    return character, spelled, len(spelled)


class Cluster(NamedTuple):
    """A user-perceived character (a letter with its marks, a flag, a joined emoji) and the cells it covers."""

    start: int
    end: int
    left: int
    right: int


_WINDOW = 64
"""Code points examined for a boundary; longer clusters exist only to break terminals."""


def clusters(text: str, cell: int = 0) -> Iterator[Cluster]:
    """All clusters of a text that begins at a cell of its row. Tab stops count from the beginning of the row."""
    if text.isascii() and "\t" not in text:
        yield from (Cluster(index, index + 1, cell + index, cell + index + 1) for index in range(len(text)))
        return
    offset = 0
    for part in text.split("\t"):
        if offset:
            width = TAB - cell % TAB
            yield Cluster(offset - 1, offset, cell, cell + width)
            cell += width
        for start, end, width in _split(part):
            yield Cluster(offset + start, offset + end, cell, cell + width)
            cell += width
        offset += len(part) + 1


def _split(text: str) -> list[tuple[int, int, int]]:
    """Start, end and width of each cluster. Skin tones join the cluster before; two regional indicators are a flag. A
    tab, which has no width for Rich, is a cluster of its own."""
    found: list[tuple[int, int, int]] = []
    for start, end, width in split_graphemes(text)[0]:
        while (tab := text.find("\t", start + 1, end)) > 0:
            found.append((start, tab, width))
            start, width = tab, 0
        first = text[start]
        is_tone = "\U0001f3fb" <= first <= "\U0001f3ff"
        is_flag = _is_regional(first) and found and found[-1][1] - found[-1][0] == 1 and _is_regional(text[start - 1])
        if found and (is_tone or is_flag):
            found[-1] = (found[-1][0], end, found[-1][2] + width)
        else:
            found.append((start, end, width))
    return found


def boundary_after(text: str, index: int) -> int:
    """End of the cluster at an index."""
    ahead = text[index : index + _WINDOW]
    if len(ahead) < 2 or ahead[:2].isascii():
        return min(index + 1, len(text))
    return index + _split(ahead)[0][1]


def boundary_before(text: str, index: int) -> int:
    """Start of the cluster before an index."""
    behind = text[max(0, index - _WINDOW) : index]
    if len(behind) < 2 or behind[-1:].isascii():
        return max(0, index - 1)
    return index - len(behind) + _split(behind)[-1][0]


def boundary_near(text: str, index: int) -> int:
    """The index itself, or the start of the cluster that contains it."""
    if index <= 0 or index >= len(text) or text[index - 1 : index + 1].isascii():
        return index
    start = max(0, index - _WINDOW)
    starts = (start + first for first, _end, _width in _split(text[start : index + _WINDOW]))
    return max((at for at in starts if at <= index), default=index)


_WORD = re.compile(r"\S+\s*|\s+")


def row_starts(line: str, width: int) -> list[int]:
    """Where the rows of an edited line begin, wrapped between words so that every character keeps a cell."""
    starts, used = [0], 0
    for word in _WORD.finditer(line):
        whole = word.group()
        if used + len(whole) <= width and whole.isascii() and "\t" not in whole:  # fast path for most words
            used += len(whole)
            continue
        if used and used + clusters_width(whole, used) > width:
            starts.append(word.start())
            used = 0
        for cluster in clusters(whole):
            is_tab = whole[cluster.start] == "\t"
            cells = TAB - used % TAB if is_tab else cluster.right - cluster.left
            if used and used + cells > width:
                starts.append(word.start() + cluster.start)
                used, cells = 0, TAB if is_tab else cells
            used += cells
    return starts


def clusters_width(text: str, before: int = 0) -> int:
    """Cells of a text painted as it is, `before` cells after the beginning of its row."""
    if text.isascii() and "\t" not in text:
        return len(text)
    return max((cluster.right for cluster in clusters(text, before)), default=before) - before
