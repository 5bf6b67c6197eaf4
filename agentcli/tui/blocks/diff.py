"""A unified diff as rows: one column of lines, or the old beside the new.

Pure, and robust against text that is no diff at all. Copying a row gives the code, without numbers and signs; where
old and new stand side by side it gives the new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.diff_parse import DiffLine, Hunk, parse
from agentcli.tui.blocks.diff_words import Spans, changed_words, pairs
from agentcli.tui.blocks.rows import decoration, filled, size
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.palette import Palette

__all__ = ["DiffLine", "Hunk", "fits_side_by_side", "parse", "side_by_side", "unified", "unified_groups"]

SIDE_BY_SIDE_FROM = 110
_NARROWEST_BESIDE = 48
_MOST_COLOURED = 400
_BETWEEN = " │ "


def unified(text: str, width: int, palette: Palette, path: str = "") -> list[Line]:
    """All rows of a diff, each as wide as `width` where it has a background."""
    return [line for group in unified_groups(parse(text), width, palette, path) for line in group]


def unified_groups(hunks: Sequence[Hunk], width: int, palette: Palette, path: str = "") -> Iterator[list[Line]]:
    """The rows of one line of the diff after the other, made as they are asked for."""
    digits = _digits(hunks)
    for place, hunk in enumerate(hunks):
        above = _headings(hunks, place, width, palette)
        painted = _painted(hunk, palette, path)
        for index, line in enumerate(hunk.lines):
            yield [*above, *_row(line, painted.runs(index), width, palette, digits)]
            above = []
        if above:
            yield above


def side_by_side(text: str, width: int, palette: Palette, path: str = "") -> list[Line]:
    """All rows, old on the left and new on the right. Where there is no room for that: one column."""
    hunks = parse(text)
    if width < _NARROWEST_BESIDE:
        return unified(text, width, palette, path)
    digits = _digits(hunks)
    left, right = (width - len(_BETWEEN)) // 2, (width - len(_BETWEEN) + 1) // 2
    lines: list[Line] = []
    for place, hunk in enumerate(hunks):
        lines += _headings(hunks, place, width, palette)
        painted = _painted(hunk, palette, path)
        for old, new in _beside(hunk):
            if old is not None and hunk.lines[old].sign == "":
                lines += _row(hunk.lines[old], painted.runs(old), width, palette, digits)
                continue
            cells = [
                _row(hunk.lines[index], painted.runs(index), room, palette, digits, old=side)
                if index is not None
                else []
                for index, room, side in ((old, left, True), (new, right, False))
            ]
            lines += _merged(cells[0], cells[1], left, right, palette)
    return lines


def fits_side_by_side(hunks: Sequence[Hunk], width: int) -> bool:
    """Whether two columns say more than one: something was replaced, and no line would have to be wrapped."""
    if width < SIDE_BY_SIDE_FROM:
        return False
    room = (width - len(_BETWEEN)) // 2 - _digits(hunks) - 3
    signs = [line.sign for hunk in hunks for line in hunk.lines]
    replaced = any(one == "-" and other == "+" for one, other in pairwise(signs))
    return replaced and all(size([(line.text[:width], Style.null())]) <= room for hunk in hunks for line in hunk.lines)


# -------------------------------------------------------------------------------------------------------- one row


def _digits(hunks: Sequence[Hunk]) -> int:
    highest = max((line.old or line.new or 0 for hunk in hunks for line in hunk.lines[-1:]), default=0)
    return len(str(max(highest, *(line.new or 0 for hunk in hunks for line in hunk.lines[-1:]), 0)))


def _row(
    line: DiffLine, runs: list[Run], width: int, palette: Palette, digits: int, *, old: bool = False
) -> list[Line]:
    if line.sign == "":
        return wrap([(line.text, palette.muted)], width, _blank(digits + 3, width, palette.muted))
    base = _base(line.sign, palette)
    number = line.old if old or line.sign == "-" else line.new
    columns = f"{number or '':>{digits}} {line.sign} "
    quiet = base if line.sign in "+-" else palette.faint
    first: list[Run] = [(columns, quiet)] if width >= len(columns) + 4 else [(line.sign, quiet)] if width >= 3 else []
    rows = wrap(runs, width, first, _blank(size(first), width, base))
    return [filled(row, width, base) for row in rows]


def _blank(cells: int, width: int, style: Style) -> list[Run]:
    return [(" " * cells, style)] if cells and width >= cells + 2 else []


def _base(sign: str, palette: Palette) -> Style:
    return {"+": palette.added, "-": palette.removed}.get(sign, palette.text)


def _headings(hunks: Sequence[Hunk], place: int, width: int, palette: Palette) -> list[Line]:
    """What stands before a hunk: the file where there are several, and where in it this is."""
    hunk, before = hunks[place], hunks[place - 1] if place else None
    lines: list[Line] = []
    if hunk.path and hunk.path != (before.path if before else ""):
        lines += wrap([(hunk.path, palette.strong + palette.hunk)], width)
    elif before is not None:
        lines.append(decoration([("⋯", palette.hunk)], width))
    return lines


# ---------------------------------------------------------------------------------------------------- side by side


def _beside(hunk: Hunk) -> Iterator[tuple[int | None, int | None]]:
    """Places of lines that stand beside one another."""
    for kind, removed, added in _stretches(hunk.lines):
        if kind == "-":
            yield from pairs(
                [hunk.lines[at].text for at in removed], [hunk.lines[at].text for at in added], removed, added
            )
        else:
            yield from ((at, at) for at in removed)


def _stretches(lines: Sequence[DiffLine]) -> Iterator[tuple[str, list[int], list[int]]]:
    """Changes as (removed lines, added lines that follow them), all else line by line."""
    place = 0
    while place < len(lines):
        if lines[place].sign not in ("-", "+"):
            yield " ", [place], []
            place += 1
            continue
        found: dict[str, list[int]] = {"-": [], "+": []}
        while place < len(lines) and lines[place].sign in ("-", "+", ""):
            if (sign := lines[place].sign) == "":
                # "No newline at end of file" between the two sides must not tear them apart.
                if found["+"] or place + 1 == len(lines) or lines[place + 1].sign != "+":
                    break
            elif sign == "-" and found["+"]:
                break
            else:
                found[sign].append(place)
            place += 1
        yield "-", found["-"], found["+"]


def _merged(old: list[Line], new: list[Line], left: int, right: int, palette: Palette) -> list[Line]:
    bar = Segment(_BETWEEN, palette.faint)
    lines: list[Line] = []
    for index in range(max(len(old), len(new))):
        one = old[index].strip if index < len(old) else Strip([])
        other = new[index] if index < len(new) else None
        strip = Strip([*one.adjust_cell_length(left), bar, *(other.strip.adjust_cell_length(right) if other else ())])
        if other is None:
            lines.append(Line(strip, "", left + len(_BETWEEN), ""))
        else:
            lines.append(Line(strip, other.text, other.indent + left + len(_BETWEEN), other.joint))
    return lines


# --------------------------------------------------------------------------------------------------------- colours


class _Painted:
    """The runs of each line of a hunk: code colours, changed words, and the colour of the change."""

    def __init__(self, hunk: Hunk, palette: Palette, coloured: dict[int, list[Run]], words: dict[int, Spans]) -> None:
        self._hunk = hunk
        self._palette = palette
        self._coloured = coloured
        self._words = words

    def runs(self, index: int) -> list[Run]:
        line, palette = self._hunk.lines[index], self._palette
        base = _base(line.sign, palette)
        runs = [
            (text, self._over(base, style)) for text, style in self._coloured.get(index, [(line.text, Style.null())])
        ]
        spans = self._words.get(index)
        if not spans:
            return runs
        word = palette.added_word if line.sign == "+" else palette.removed_word
        return list(_marked(runs, spans, word))

    def _over(self, base: Style, style: Style) -> Style:
        # Comments are faint by intent; on the colour of a change they could not be read.
        if style == self._palette.syntax.get("comment") and base.bgcolor:
            return base
        return base + style


def _painted(hunk: Hunk, palette: Palette, path: str) -> _Painted:
    words: dict[int, Spans] = {}
    for kind, removed, added in _stretches(hunk.lines):
        if kind != "-" or not removed or not added:
            continue
        texts = [[hunk.lines[at].text for at in side] for side in (removed, added)]
        for old, new in pairs(texts[0], texts[1], removed, added):
            if old is not None and new is not None:
                words[old], words[new] = changed_words(hunk.lines[old].text, hunk.lines[new].text)
    return _Painted(hunk, palette, _coloured(hunk, palette, path or hunk.path), words)


def _coloured(hunk: Hunk, palette: Palette, path: str) -> dict[int, list[Run]]:
    """Code colours of what is there after the change; what goes stays in one colour."""
    try:
        from agentcli.tui.blocks.highlight import highlight, language_of
    except ImportError:
        return {}
    language = language_of(path) if path else ""
    if not language or not palette.colours:
        return {}
    kept = [index for index, line in enumerate(hunk.lines) if line.sign in (" ", "+")][:_MOST_COLOURED]
    lines = highlight("\n".join(hunk.lines[index].text for index in kept), language, palette)
    return {
        index: runs
        for index, runs in zip(kept, lines, strict=False)
        if "".join(text for text, _style in runs) == hunk.lines[index].text
    }


def _marked(runs: Sequence[Run], spans: Spans, word: Style) -> Iterator[Run]:
    """The runs, with another style over the spans (which are in order)."""
    start = 0
    for text, style in runs:
        end, place = start + len(text), start
        for first, last in spans:
            if last <= place or first >= end:
                continue
            if first > place:
                yield text[place - start : first - start], style
            yield text[max(first, place) - start : min(last, end) - start], style + word
            place = min(last, end)
        if place < end:
            yield text[place - start :], style
        start = end
