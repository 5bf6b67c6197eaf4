"""Rows of unified diffs, of one file or of several, in one column or with old and new lines side by side.

Pure, and robust against text that is not a diff. Copying a row gives the code without line numbers and signs; of a
side-by-side row it gives the new line.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise, zip_longest
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import TAB, terminal_line
from agentcli.core.text.unified_diff import DiffLine, FileDiff, Hunk
from agentcli.history.export.code_tokens import language_of
from agentcli.tui.blocks.base import BlockLine, Run, clip, wrap
from agentcli.tui.blocks.rows import decoration, fill_row, size
from agentcli.tui.theme.palette import Palette

_CHUNK = 64
"""Lines coloured together: lexing is most of the cost, and a folded diff shows few lines."""


def _base_style(sign: str, palette: Palette) -> Style:
    return {"+": palette.added, "-": palette.removed}.get(sign, palette.text)


class _PaintedHunk:
    """Lines of a hunk with code colours and marked words, computed on demand."""

    def __init__(self, hunk: Hunk, palette: Palette, path: str, *, quiet: bool) -> None:
        """`quiet`: omit the colour of the change, which is redundant in a new file."""
        self.lines = hunk.lines
        self.quiet = quiet
        self._palette = palette
        self._language = language_of(path or hunk.path) if palette.colours else ""
        self._kept = [index for index, line in enumerate(self.lines) if line.sign in (" ", "+")]
        self._coloured: dict[int, list[Run]] = {}
        self._words: dict[int, Spans] = {}
        self._stretch_of: dict[int, tuple[list[int], list[int]]] = {}
        for kind, removed, added in stretches(self.lines):
            if kind == "-" and removed and added:
                self._stretch_of |= dict.fromkeys((*removed, *added), (removed, added))

    def runs(self, index: int) -> list[Run]:
        """Styled text of a line, without the columns before it."""
        line, palette = self.lines[index], self._palette
        base = palette.text if self.quiet else _base_style(line.sign, palette)
        runs = [(text, self._over(base, style)) for text, style in self._colours(index) or [(line.text, Style.null())]]
        if spans := self._find_changed(index):
            return list(_mark(runs, spans, palette.added_word if line.sign == "+" else palette.removed_word))
        return runs

    def _over(self, base: Style, style: Style) -> Style:
        # Comments are faint by design, which would be unreadable on the background of a change.
        if base.bgcolor and style == self._palette.syntax.get("comment"):
            return base
        return base + style

    def _find_changed(self, index: int) -> Spans:
        if index in self._stretch_of and index not in self._words:
            removed, added = self._stretch_of[index]
            self._words |= {place: [] for place in (*removed, *added)}
            for old, new in pairs(self.lines, removed, added):
                if old is not None and new is not None:
                    self._words[old], self._words[new] = find_changed_words(self.lines[old].text, self.lines[new].text)
        return self._words.get(index, [])

    def _colours(self, index: int) -> list[Run]:
        """Code colours of a line that exists after the change; removed lines have a single colour."""
        if not self._language or self.lines[index].sign not in (" ", "+"):
            return []
        if index not in self._coloured:
            from agentcli.tui.blocks.highlight import highlight

            start = bisect_left(self._kept, index) // _CHUNK * _CHUNK
            places = self._kept[start : start + _CHUNK]
            texts = [self.lines[place].text for place in places]
            rows = highlight("\n".join(texts), self._language, self._palette)
            self._coloured |= zip(places, rows if len(rows) == len(places) else [[]] * len(places), strict=True)
        return self._coloured[index]


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


def _mark(runs: Sequence[Run], spans: Spans, word: Style) -> Iterator[Run]:
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


def pairs(lines: Sequence[DiffLine], removed: Sequence[int], added: Sequence[int]) -> list[Pair]:
    """Pair the indexes of corresponding removed and added lines, in order; None for a line without a partner.

    Similar lines are partners. The unpaired lines between two pairs share rows.
    """
    chosen = _alike([lines[at].text for at in removed], [lines[at].text for at in added])
    found: list[Pair] = []
    at_old = at_new = 0
    for left, right in [*chosen, (len(removed), len(added))]:
        if at_old < left or at_new < right:
            # Lines that are not similar share rows where possible: half as much to scroll.
            found += zip_longest(removed[at_old:left], added[at_new:right])
        if left < len(removed):
            found.append((removed[left], added[right]))
        at_old, at_new = left + 1, right + 1
    return found


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of similar lines, in order: each old line with the first similar one after the pair before it."""
    if max(len(old), len(new), 1) > _MAX_COMPARED:
        return [(at, at) for at in range(min(len(old), len(new)))]
    words = [[Counter(_WORD.findall(text[:_MAX_COMPARED_LENGTH].strip())) for text in side] for side in (old, new)]
    chosen: list[tuple[int, int]] = []
    first = 0
    for left, line in enumerate(words[0]):
        likeness = [_likeness(line, other) for other in words[1][first:]]
        if likeness and max(likeness) >= _ALIKE:
            right = first + likeness.index(max(likeness))
            chosen.append((left, right))
            first = right + 1
    return chosen


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def find_changed_words(old: str, new: str) -> tuple[Spans, Spans]:
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
_BETWEEN = " │ "


def fits_side_by_side(hunks: Sequence[Hunk], width: int) -> bool:
    """Whether two columns are better than one: a line was replaced, and no line would have to be wrapped."""
    if width < SIDE_BY_SIDE_FROM:
        return False
    room = (width - len(_BETWEEN)) // 2 - _digits_of(hunks) - 3
    lines = [line for hunk in hunks for line in hunk.lines]
    replaced = any(one.sign == "-" and other.sign == "+" for one, other in pairwise(lines))
    return replaced and all(_cells(line.text, room) <= room for line in lines)


def diff_groups(
    hunks: Sequence[Hunk], width: int, palette: Palette, path: str = "", *, two_columns: bool = False
) -> Iterator[list[BlockLine]]:
    """Yield the rows of each diff line, in two columns if there is room. Two lines side by side yield their rows and
    one empty group, so that the number of groups is the number of lines."""
    columns = _Columns(hunks, width, palette, path, two_columns=two_columns)
    for place, hunk in enumerate(hunks):
        above = _headings(hunks, place, width, palette)
        for _line, rows in columns.groups(hunk):
            yield [*above, *rows]
            above = []


class _Columns:
    """Layout of the lines of one file."""

    def __init__(self, hunks: Sequence[Hunk], width: int, palette: Palette, path: str, *, two_columns: bool) -> None:
        self._width = width
        self._palette = palette
        self._path = path
        self._two_columns = two_columns and width >= MIN_WIDTH_BESIDE
        self._digits = _digits_of(hunks)
        self._quiet = not self._two_columns and _is_new_file(hunks)
        self._left = (width - len(_BETWEEN)) // 2

    def groups(self, hunk: Hunk) -> Iterator[tuple[int, list[BlockLine]]]:
        """Yield the index of each line and its rows; see `diff_groups`."""
        painted = _PaintedHunk(hunk, self._palette, self._path, quiet=self._quiet)
        if not self._two_columns:
            for index in range(len(hunk.lines)):
                yield index, self._rows(painted, index, self._width)
            return
        right = self._width - len(_BETWEEN) - self._left
        for old, new in _beside_places(hunk):
            if old is not None and not hunk.lines[old].sign:
                yield old, self._rows(painted, old, self._width)
                continue
            before = [] if old is None else self._rows(painted, old, self._left, old=True)
            after = [] if new is None else self._rows(painted, new, right)
            rows = _merge(before, after, self._left, right, self._palette)
            yield new if new is not None else old or 0, rows
            if old is not None and new is not None and old != new:
                yield old, []

    def _rows(self, painted: _PaintedHunk, index: int, width: int, *, old: bool = False) -> list[BlockLine]:
        line, palette, digits = painted.lines[index], self._palette, self._digits
        if not line.sign:
            blanks = " " * (digits + 3) if width >= digits + 5 else ""
            return wrap([(line.text, palette.muted)], width, [(blanks, palette.muted)])
        base = _base_style(line.sign, palette)
        columns = f"{(line.old if old or line.sign == '-' else line.new) or '':>{digits}} {line.sign} "
        style = base if line.sign in "+-" else palette.faint
        first: list[Run] = []
        if width >= len(columns) + 4:
            # If only the columns are coloured, the blank after the sign belongs to the code.
            first = [(columns[:-1], style), (" ", palette.text if painted.quiet else style)]
        elif width >= 3:
            first = [(line.sign, style)]
        rest = [(" " * cell_len(text), each) for text, each in first]
        rows = wrap(painted.runs(index), width, first, rest)
        return rows if painted.quiet else [fill_row(row, width, base) for row in rows]


def _digits_of(hunks: Sequence[Hunk]) -> int:
    numbers = [max(line.old or 0, line.new or 0) for hunk in hunks for line in hunk.lines]
    return len(str(max(numbers, default=0)))


def _is_new_file(hunks: Sequence[Hunk]) -> bool:
    return len(hunks) == 1 and hunks[0].new_start == 1 and all(line.sign in ("+", "") for line in hunks[0].lines)


def _cells(text: str, room: int) -> int:
    return room + 1 if len(text) > 2 * room else cell_len(text.expandtabs(TAB))


def _headings(hunks: Sequence[Hunk], place: int, width: int, palette: Palette) -> list[BlockLine]:
    hunk, before = hunks[place], hunks[place - 1] if place else None
    if hunk.path and (before is None or hunk.path != before.path):
        return wrap([(hunk.path, palette.strong + palette.hunk)], width)
    return [_hunk_heading(hunk, width, palette)] if before is not None else []


def _hunk_heading(hunk: Hunk, width: int, palette: Palette) -> BlockLine:
    return decoration([("⋯ ", palette.hunk), (hunk.heading[:500], palette.faint)], width)


def _beside_places(hunk: Hunk) -> Iterator[Pair]:
    for kind, removed, added in stretches(hunk.lines):
        if kind == "-":
            yield from pairs(hunk.lines, removed, added)
        else:
            yield removed[0], removed[0]


def _merge(old: list[BlockLine], new: list[BlockLine], left: int, right: int, palette: Palette) -> list[BlockLine]:
    bar = Segment(_BETWEEN, palette.faint)
    indent = left + len(_BETWEEN)
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


@frozen
class FileView:
    """A changed file, and how a list names it."""

    name: str
    diff: FileDiff
    sign: str = "M"
    remarks: str = ""
    counts: tuple[int, int] = (0, 0)


def file_view(file: FileDiff) -> FileView:
    sign = {"added": "A", "deleted": "D", "renamed": "R", "copied": "C"}.get(file.state, "M")
    name, remarks = terminal_line(file.path), ", ".join(terminal_line(one) for one in file.remarks())
    return FileView(name, file, sign, remarks, (file.added, file.removed))


def output_groups(
    files: Sequence[FileView], width: int, palette: Palette, *, two_columns: bool, with_headers: bool
) -> Iterator[list[BlockLine]]:
    """Yield the rows of each line of a diff of several files. Its header lines are replaced by a heading, or follow it
    (`with_headers`)."""
    for file in files:
        yield from (wrap([(text, palette.muted)], width) for text in file.diff.before)
        if not file.diff.path and not file.diff.hunks:
            continue  # only text after the last file
        held = _file_heading(file, width, palette)
        for text in file.diff.header:
            yield [*held, *(wrap([(text, palette.faint)], width) if with_headers else ())]
            held = []
        columns = _Columns(file.diff.hunks, width, palette, file.diff.path, two_columns=two_columns)
        for place, hunk in enumerate(file.diff.hunks):
            if with_headers:
                held += wrap([(hunk.title, palette.hunk)], width)
            elif _has_heading(hunk, place):
                held.append(_hunk_heading(hunk, width, palette))
            yield held
            held = []
            yield from (rows for _line, rows in columns.groups(hunk))
        if held:
            yield held


def _has_heading(hunk: Hunk, place: int) -> bool:
    return bool(place or hunk.new_start > 1 or hunk.heading)


class DiffPlace(NamedTuple):
    """What a row of a page shows; -1 for a row above the lines of a hunk or above all files."""

    file: int = -1
    hunk: int = -1
    line: int = -1


@frozen
class PageRows:
    """Rows of a page with changed files, and for each row the place in the diff."""

    lines: list[BlockLine] = field(default_factory=list)
    places: list[DiffPlace] = field(default_factory=list)
    file_rows: list[int] = field(default_factory=list)
    """Where the files begin."""
    hunk_rows: list[int] = field(default_factory=list)
    """Where the hunks begin; the first one of a file begins with the file."""

    def add(self, place: DiffPlace, lines: Sequence[BlockLine]) -> None:
        self.lines.extend(lines)
        self.places.extend([place] * len(lines))

    def find(self, wanted: DiffPlace) -> int:
        """The row that shows a place, or the first one of its hunk, or of its file."""
        for place in (wanted, wanted._replace(line=-1), DiffPlace(wanted.file)):
            if place in self.places:
                return self.places.index(place)
        return 0


MAX_FILE_LINES = 5_000
MAX_LINES = 20_000
"""Lines of a file and of all files that a page shows: each takes 0.1 ms and 3 KB."""
_MAX_COLOURED_LINES = 5_000
"""Lines before a file that has code colours, which take as long again."""
_MAX_LINE_LENGTH = 8_000


def page_rows(files: Sequence[FileView], width: int, palette: Palette, *, two_columns: bool) -> PageRows:
    """All files: a list of them, then their changes. Takes long; run it in a thread for large diffs."""
    rows = PageRows()
    column = max((size(_counts(file, palette)) for file in files), default=0)
    for file in files:
        rows.add(DiffPlace(), [_lay_out_file(file, column, width, palette)])
    left = MAX_LINES
    for number, file in enumerate(files):
        rows.add(rows.places[-1], [decoration([], width)])
        rows.file_rows.append(len(rows.lines))
        rows.add(DiffPlace(number), _file_heading(file, width, palette))
        if not file.diff.hunks:
            rows.add(DiffPlace(number), [decoration([("  no lines to show", palette.faint)], width)])
        hunks, omitted = _limit(file.diff.hunks, min(left, MAX_FILE_LINES))
        path = file.diff.path if MAX_LINES - left < _MAX_COLOURED_LINES else ""
        columns = _Columns(hunks, width, palette, path, two_columns=two_columns and _has_two_sides(hunks))
        for at, hunk in enumerate(hunks):
            rows.hunk_rows.append(len(rows.lines) if at else rows.file_rows[-1])
            if _has_heading(hunk, at):
                rows.add(DiffPlace(number, at), [_hunk_heading(hunk, width, palette)])
            for line, group in columns.groups(hunk):
                rows.add(DiffPlace(number, at, line), group)
        left -= sum(len(hunk.lines) for hunk in hunks)
        if omitted:
            note = f"  … {counted(omitted, 'more line')}: too long for this page"
            rows.add(DiffPlace(number, len(hunks)), [decoration([(note, palette.muted)], width)])
    return rows


def _limit(hunks: Sequence[Hunk], most: int) -> tuple[list[Hunk], int]:
    """Cut the hunks to `most` lines of limited length; the second value is the number of omitted lines."""
    kept: list[Hunk] = []
    omitted = 0
    for hunk in hunks:
        lines = [_shorten(line) for line in hunk.lines[:most]]
        omitted += len(hunk.lines) - len(lines)
        most -= len(lines)
        if lines:
            kept.append(replace(hunk, lines=lines, path=""))
    return kept, omitted


def _shorten(line: DiffLine) -> DiffLine:
    more = len(line.text) - _MAX_LINE_LENGTH
    if more <= 0:
        return line
    return replace(line, text=f"{line.text[:_MAX_LINE_LENGTH]}… ({counted(more, 'more character')})")


def _has_two_sides(hunks: Sequence[Hunk]) -> bool:
    return {"+", "-"} <= {line.sign for hunk in hunks for line in hunk.lines}


def _counts(file: FileView, palette: Palette) -> list[Run]:
    added, removed = file.counts
    if not file.diff.hunks:
        return []
    return [(f"+{added}", palette.success if added else palette.faint), (" ", palette.faint),
            (f"−{removed}", palette.error if removed else palette.faint)]  # fmt: skip


def _lay_out_file(file: FileView, column: int, width: int, palette: Palette) -> BlockLine:
    counts = _counts(file, palette)
    runs: list[Run] = [(f"{file.sign} ", palette.accent)]
    runs += [*counts, (" " * (column - size(counts) + 2), palette.faint), (file.name, palette.text)]
    if file.remarks:
        runs.append((f"  {file.remarks}", palette.muted))
    return clip(runs, width)


def _file_heading(file: FileView, width: int, palette: Palette) -> list[BlockLine]:
    runs: list[Run] = [(f"{file.sign} ", palette.accent), (file.name, palette.strong + palette.hunk)]
    counts = _counts(file, palette)
    runs += [("  ", palette.faint), *counts] if counts else []
    runs += [(f"  {file.remarks}", palette.muted)] if file.remarks else []
    *above, last = [row.strip for row in wrap(runs, width)]
    room = width - last.cell_length - 1
    if room >= 2:
        last = Strip([*last, Segment(f" {'─' * room}", palette.rule)], width)
    return [*(BlockLine(strip, "", 0, "") for strip in above), BlockLine(last, file.name)]
