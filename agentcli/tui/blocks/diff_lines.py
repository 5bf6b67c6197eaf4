"""Rows of a unified diff, in one column or with old and new lines side by side.

Pure, and robust against text that is not a diff. Copying a row gives the code without line numbers and signs; of a
side-by-side row it gives the new line.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.plaintext import TAB
from agentcli.core.text.unified_diff import DiffLine, Hunk
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.highlight import language_of
from agentcli.tui.blocks.rows import decoration, filled
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.theme.palette import Palette

_FIRST_COLOURED = 30
_MAX_COLOURED = 200
"""Maximum number of kept lines of a hunk with code colours: lexing is most of the cost, and folded diffs show few."""
_CHUNK = 32
"""Kept lines coloured together if all of them are coloured: a screenful takes a few milliseconds."""


def base_style(sign: str, palette: Palette) -> Style:
    return {"+": palette.added, "-": palette.removed}.get(sign, palette.text)


class PaintedHunk:
    def __init__(
        self, hunk: Hunk, palette: Palette, path: str = "", *, quiet: bool = False, whole: bool = False
    ) -> None:
        """`whole`: give all lines code colours, in chunks on demand."""
        self.lines = hunk.lines
        self._palette = palette
        self._path = path or hunk.path
        self._quiet = quiet
        """Omit the colour of the change, which is redundant in a new file."""
        self._kept = [index for index, line in enumerate(self.lines) if line.sign in (" ", "+")]
        self._rank = {index: rank for rank, index in enumerate(self._kept)} if whole else {}
        self._chunks: set[int] = set()
        self._coloured: dict[int, list[Run]] = {}
        self._coloured_to = 0
        self._stretch_of: dict[int, tuple[list[int], list[int]]] = {}
        for kind, removed, added in stretches(self.lines):
            if kind == "-" and removed and added:
                self._stretch_of |= dict.fromkeys((*removed, *added), (removed, added))
        self._pair_of: dict[int, Pair] = {}
        self._words: dict[int, Spans] = {}

    def prepare(self) -> None:
        """Pair the old and new lines of the whole hunk in advance: for a long hunk this takes longer than a frame."""
        for index, (removed, added) in self._stretch_of.items():
            if index not in self._pair_of:
                self._pair(removed, added)

    def _pair(self, removed: Sequence[int], added: Sequence[int]) -> None:
        for pair in partners(self.lines, removed, added):
            for place in pair:
                if place is not None:
                    self._pair_of[place] = pair

    def runs(self, index: int) -> list[Run]:
        """Styled text of a line, without the columns before it."""
        line, palette = self.lines[index], self._palette
        base = palette.text if self._quiet else base_style(line.sign, palette)
        runs = [(text, self._over(base, style)) for text, style in self._colours(index) or [(line.text, Style.null())]]
        if spans := self._changed(index):
            return list(_marked(runs, spans, palette.added_word if line.sign == "+" else palette.removed_word))
        return runs

    def _over(self, base: Style, style: Style) -> Style:
        # Comments are faint by design, which would be unreadable on the background of a change.
        if base.bgcolor and style == self._palette.syntax.get("comment"):
            return base
        return base + style

    def _changed(self, index: int) -> Spans:
        if index in self._stretch_of and index not in self._words:
            if index not in self._pair_of:
                self._pair(*self._stretch_of[index])
            old, new = self._pair_of[index]
            if old is not None and new is not None:
                found = changed_words(self.lines[old].text, self.lines[new].text)
                self._words[old], self._words[new] = found
            else:
                self._words[index] = []
        return self._words.get(index, [])

    def _colours(self, index: int) -> list[Run]:
        """Code colours of a line that exists after the change; removed lines have a single colour."""
        if self.lines[index].sign not in (" ", "+") or not self._palette.colours:
            return []
        if self._rank:
            chunk = self._rank[index] // _CHUNK
            if chunk not in self._chunks:
                self._chunks.add(chunk)
                self._colour(self._kept[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            return self._coloured.get(index, [])
        while index not in self._coloured and self._coloured_to < min(_MAX_COLOURED, len(self._kept)):
            self._coloured_to = _MAX_COLOURED if self._coloured_to else _FIRST_COLOURED
            self._colour(self._kept[: self._coloured_to])
        return self._coloured.get(index, [])

    def _colour(self, places: Sequence[int]) -> None:
        from agentcli.tui.blocks.highlight import highlight

        language = language_of(self._path) if self._path else ""
        if not language:
            return
        texts = [self.lines[index].text for index in places]
        for index, runs in zip(places, highlight("\n".join(texts), language, self._palette), strict=False):
            if "".join(text for text, _style in runs) == self.lines[index].text:
                self._coloured[index] = runs


def stretches(lines: Sequence[DiffLine]) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield changes as (removed lines, added lines that follow them) and all other lines one by one.

    A note between the two sides ("No newline at end of file") does not split a change: it is yielded after it."""
    place = 0
    while place < len(lines):
        if lines[place].sign not in ("-", "+"):
            yield " ", [place], []
            place += 1
            continue
        removed: list[int] = []
        added: list[int] = []
        notes: list[int] = []
        while place < len(lines):
            sign = lines[place].sign
            if sign == "-" and not added:
                removed.append(place)
            elif sign == "+":
                added.append(place)
            elif sign == "" and not added and place + 1 < len(lines) and lines[place + 1].sign == "+":
                notes.append(place)
            else:
                break
            place += 1
        yield "-", removed, added
        for note in notes:
            yield " ", [note], []


def partners(lines: Sequence[DiffLine], removed: Sequence[int], added: Sequence[int]) -> list[Pair]:
    """Indexes of removed and added lines that correspond to each other."""
    return pairs([lines[at].text for at in removed], [lines[at].text for at in added], removed, added)


def _marked(runs: Sequence[Run], spans: Spans, word: Style) -> Iterator[Run]:
    """Apply a style to the spans of the runs. The spans are in order."""
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


Spans = list[tuple[int, int]]
"""Character ranges (start, end), in order."""
Pair = tuple[int | None, int | None]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_COMPARED_LENGTH = 500
_MAX_COMPARED = 40
"""Maximum number of lines on one side that are compared pairwise: the cost is quadratic."""
_ALIKE = 0.4
_MAX_CHANGED = 0.7
"""A line of which a larger share has changed counts as new: marking all of it would be useless."""


def pairs(old: Sequence[str], new: Sequence[str], old_places: Sequence[int], new_places: Sequence[int]) -> list[Pair]:
    """Pair corresponding lines, in order; None for a line without a partner.

    Similar lines are partners. If several pairings are possible, the one with the highest total similarity wins. The
    unpaired lines between two pairs share rows.
    """
    chosen = _alike(old, new)
    found: list[Pair] = []
    at_old = at_new = 0
    for left, right in [*chosen, (len(old), len(new))]:
        if at_old < left or at_new < right:
            # Lines that are not similar share rows where possible: half as much to scroll.
            found += zip_longest(old_places[at_old:left], new_places[at_new:right])
        if left < len(old):
            found.append((old_places[left], new_places[right]))
        at_old, at_new = left + 1, right + 1
    return found


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    if max(len(old), len(new), 1) > _MAX_COMPARED:
        return [(at, at) for at in range(min(len(old), len(new)))]
    words = [[Counter(_WORD.findall(text[:_MAX_COMPARED_LENGTH].strip())) for text in side] for side in (old, new)]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    likeness = [[_likeness(one, other) for other in words[1]] for one in words[0]]
    for left in range(len(old) - 1, -1, -1):
        for right in range(len(new) - 1, -1, -1):
            together = likeness[left][right] + best[left + 1][right + 1] if likeness[left][right] >= _ALIKE else 0.0
            best[left][right] = max(together, best[left + 1][right], best[left][right + 1])
    chosen: list[tuple[int, int]] = []
    left = right = 0
    while left < len(old) and right < len(new):
        value = best[left][right]
        if likeness[left][right] >= _ALIKE and value == likeness[left][right] + best[left + 1][right + 1]:
            chosen.append((left, right))
            left, right = left + 1, right + 1
        elif value == best[left + 1][right]:
            left += 1
        else:
            right += 1
    return chosen


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Ranges of both lines that differ; none if the lines have little in common."""
    if len(old) > _MAX_COMPARED_LENGTH or len(new) > _MAX_COMPARED_LENGTH:
        return [], []
    before, after = _WORD.findall(old), _WORD.findall(new)
    spans: tuple[Spans, Spans] = ([], [])
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            _extend(spans[0], before, a, b)
            _extend(spans[1], after, c, d)
    for text, found in ((old, spans[0]), (new, spans[1])):
        if sum(end - start for start, end in found) > _MAX_CHANGED * max(1, len(text.strip())):
            return [], []
    return spans


def _extend(spans: Spans, words: Sequence[str], first: int, last: int) -> None:
    """Add the words from first to last, merged with the previous range if only one blank separates them."""
    if first == last:
        return
    start = sum(map(len, words[:first]))
    end = start + sum(map(len, words[first:last]))
    if spans and start - spans[-1][1] <= 1 and not "".join(words[max(0, first - 1) : first]).strip():
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))


SIDE_BY_SIDE_FROM = 110
MIN_WIDTH_BESIDE = 48
BETWEEN = " │ "


def fits_side_by_side(hunks: Sequence[Hunk], width: int) -> bool:
    """Whether two columns are better than one: a line was replaced, and no line would have to be wrapped."""
    if width < SIDE_BY_SIDE_FROM:
        return False
    room = (width - len(BETWEEN)) // 2 - digits_of(hunks) - 3
    lines = [line for hunk in hunks for line in hunk.lines]
    replaced = any(one.sign == "-" and other.sign == "+" for one, other in pairwise(lines))
    return replaced and all(_cells(line.text, room) <= room for line in lines)


def diff_groups(
    hunks: Sequence[Hunk], width: int, palette: Palette, path: str = "", *, two_columns: bool = False
) -> Iterator[list[BlockLine]]:
    """Yield the rows of each diff line, in two columns if there is room. Two lines side by side yield their rows and
    one empty group, so that the number of groups is the number of lines."""
    two_columns = two_columns and width >= MIN_WIDTH_BESIDE
    digits, quiet = digits_of(hunks), not two_columns and is_new_file(hunks)
    left = (width - len(BETWEEN)) // 2
    right = width - len(BETWEEN) - left
    for place, hunk in enumerate(hunks):
        above = _headings(hunks, place, width, palette)
        painted = PaintedHunk(hunk, palette, path, quiet=quiet)
        one_column = ((index, index) for index in range(len(hunk.lines)))
        for old, new in beside_places(hunk) if two_columns else one_column:
            if old is not None and not (two_columns and hunk.lines[old].sign):
                rows = line_rows(painted, old, width, palette, digits, quiet=quiet)
            else:
                before = [] if old is None else line_rows(painted, old, left, palette, digits, old=True)
                after = [] if new is None else line_rows(painted, new, right, palette, digits)
                rows = merged(before, after, left, right, palette)
            yield [*above, *rows]
            above = []
            if old is not None and new is not None and old != new:
                yield []


def digits_of(hunks: Sequence[Hunk]) -> int:
    numbers = [max(line.old or 0, line.new or 0) for hunk in hunks for line in hunk.lines]
    return len(str(max(numbers, default=0)))


def is_new_file(hunks: Sequence[Hunk]) -> bool:
    return len(hunks) == 1 and hunks[0].new_start == 1 and all(line.sign in ("+", "") for line in hunks[0].lines)


def _cells(text: str, room: int) -> int:
    return room + 1 if len(text) > 2 * room else cell_len(text.expandtabs(TAB))


def columns_of(width: int, digits: int, sign: str) -> int:
    """Cells before the code of a line: number, sign and blanks, as far as there is room."""
    columns = digits + 3
    if not sign:
        return columns if width >= columns + 2 else 0
    return columns if width >= columns + 4 else 1 if width >= 3 else 0


def line_rows(
    painted: PaintedHunk,
    index: int,
    width: int,
    palette: Palette,
    digits: int,
    *,
    old: bool = False,
    quiet: bool = False,
) -> list[BlockLine]:
    line = painted.lines[index]
    if not line.sign:
        return wrap([(line.text, palette.muted)], width, [(" " * columns_of(width, digits, ""), palette.muted)])
    base = base_style(line.sign, palette)
    columns = f"{(line.old if old or line.sign == '-' else line.new) or '':>{digits}} {line.sign} "
    style = base if line.sign in "+-" else palette.faint
    first: list[Run] = []
    if width >= len(columns) + 4:
        # If only the columns are coloured, the blank after the sign belongs to the code.
        first = [(columns[:-1], style), (" ", palette.text if quiet else style)]
    elif width >= 3:
        first = [(line.sign, style)]
    rest = [(" " * cell_len(text), each) for text, each in first]
    rows = wrap(painted.runs(index), width, first, rest)
    return rows if quiet else [filled(row, width, base) for row in rows]


def _headings(hunks: Sequence[Hunk], place: int, width: int, palette: Palette) -> list[BlockLine]:
    hunk, before = hunks[place], hunks[place - 1] if place else None
    if hunk.path and (before is None or hunk.path != before.path):
        return wrap([(hunk.path, palette.strong + palette.hunk)], width)
    if before is None:
        return []
    return [decoration([("⋯ ", palette.hunk), (hunk.heading[:500], palette.faint)], width)]


def beside_places(hunk: Hunk) -> Iterator[tuple[int | None, int | None]]:
    for kind, removed, added in stretches(hunk.lines):
        if kind == "-":
            yield from partners(hunk.lines, removed, added)
        else:
            yield removed[0], removed[0]


def merged(old: list[BlockLine], new: list[BlockLine], left: int, right: int, palette: Palette) -> list[BlockLine]:
    bar = Segment(BETWEEN, palette.faint)
    indent = left + len(BETWEEN)
    lines: list[BlockLine] = []
    for index in range(max(len(old), len(new))):
        before = old[index].strip if index < len(old) else Strip([])
        segments = [*before.adjust_cell_length(left), bar]
        if index < len(new):
            after = new[index]
            strip = Strip([*segments, *after.strip.adjust_cell_length(right)])
            lines.append(BlockLine(strip, after.text, after.indent + indent, after.joint))
        else:
            lines.append(BlockLine(Strip(segments), "", indent, ""))
    return lines
