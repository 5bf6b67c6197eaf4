"""Layout of diffs of several files, which paints only the requested rows.

Maps rows to diff lines: measuring uses only the length of lines; painting (code colours, changed words) happens line by
line on request. The rows themselves are made by `diff`. Pure, without access to the screen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.core.text.unified_diff import FileDiff, Hunk
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.diff_lines import (
    BETWEEN,
    PaintedHunk,
    base_style,
    beside_places,
    columns_of,
    digits_of,
    is_new_file,
    line_rows,
    merged,
)
from agentcli.tui.blocks.rows import decoration, size
from agentcli.tui.blocks.wrap import Run, clip, wrap
from agentcli.tui.glyphs import EVEN
from agentcli.tui.theme.palette import Palette

_PIECE = 8_000
"""Characters of a line painted together: very long lines are laid out in pieces."""
_LONG = 2_000
"""Lines from which on a hunk's line pairs are computed during the layout, not with its first painted row."""
_MAX_KEPT = 2_000
"""Maximum number of entries whose painted rows are cached."""

Kind = Literal["listed", "blank", "text", "file", "header", "note", "hunk", "line", "pair"]


@frozen
class FileView:
    name: str
    diff: FileDiff
    sign: str = "M"
    remarks: str = ""
    counts: tuple[int, int] = (0, 0)


@frozen
class DiffLook:
    width: int
    palette: Palette
    beside: bool = False
    listed: bool = False
    whole: bool = False


class DiffEntry(NamedTuple):
    kind: Kind
    file: int = -1
    hunk: int = -1
    old: int | None = None
    new: int | None = None
    start: int = 0


@frozen
class Side:
    lines: list[BlockLine] = field(default_factory=list)
    left: int = 0


class DiffLayout:
    def __init__(self, files: Sequence[FileView], look: DiffLook) -> None:
        """Takes a few microseconds per line; run it in a thread for large diffs."""
        self.files = files
        self.look = look
        self.entries: list[DiffEntry] = []
        self._beside = [look.beside and _has_two_sides(file.diff) for file in files]
        self._digits = [digits_of(file.diff.hunks) for file in files]
        self._quiet = [is_new_file(file.diff.hunks) for file in files]
        self._counts_width = max((size(_counts(file, look.palette)) for file in files), default=0)
        self._painted: dict[tuple[int, int], PaintedHunk] = {}
        self._kept: dict[int, list[Side]] = {}
        self._fill()
        self._starts = array("q", [0])
        total = 0
        self.file_rows: list[int] = []
        self.hunk_rows: list[int] = []
        self._file_entries: list[int] = []
        before = DiffEntry("blank")
        for place, entry in enumerate(self.entries):
            if entry.kind == "file":
                self.file_rows.append(total)
                self._file_entries.append(place)
            elif entry.hunk >= 0 and (entry.file, entry.hunk) != (before.file, before.hunk):
                self.hunk_rows.append(self.file_rows[-1] if before.kind == "file" else total)
            total += self._height(entry)
            self._starts.append(total)
            before = entry
        for number, file in enumerate(files):
            for at, hunk in enumerate(file.diff.hunks):
                if len(hunk.lines) > _LONG:
                    self._painted_hunk(DiffEntry("hunk", number, at)).prepare()

    @property
    def row_count(self) -> int:
        return self._starts[-1]

    def entry_at(self, row: int) -> int:
        return max(0, min(len(self.entries) - 1, bisect_right(self._starts, row) - 1))

    def row_of(self, entry: int) -> int:
        return self._starts[entry]

    def find_entry(self, wanted: DiffEntry) -> int:
        line = wanted.old if wanted.new is None else wanted.new
        if wanted.file < 0 or wanted.kind == "listed" or wanted.file >= len(self._file_entries):
            return 0
        best = self._file_entries[wanted.file]
        for place in range(best, len(self.entries)):
            entry = self.entries[place]
            if entry.file > wanted.file:
                break
            if (entry.file, entry.hunk) != (wanted.file, wanted.hunk):
                continue
            if entry.kind == wanted.kind or line is not None:
                best = place
            if line is not None and line in (entry.old, entry.new):
                return place
            if line is None and entry.kind == wanted.kind:
                return place
        return best

    def row(self, number: int) -> BlockLine:
        place = self.entry_at(number)
        sides = self.sides(place)
        return self._lines(sides)[number - self._starts[place]]

    def sides(self, place: int) -> list[Side]:
        found = self._kept.get(place)
        if found is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            found = self._kept[place] = self._paint(self.entries[place])
        return found

    def groups(self) -> Iterator[list[BlockLine]]:
        held: list[BlockLine] = []
        for place, entry in enumerate(self.entries):
            rows = [*held, *self._lines(self.sides(place))]
            if entry.start or (entry.kind == "file" and (self.look.whole or not self.files[entry.file].diff.header)):
                held = rows
                continue
            held = []
            yield rows
            further = len(self.files[entry.file].diff.header) - 1 if entry.kind == "file" else 0
            yield from (
                []
                for _line in range(
                    further + (entry.kind == "pair" and None not in (entry.old, entry.new) and entry.old != entry.new)
                )
            )
        if held:
            yield held

    def texts(self, place: int) -> list[str]:
        entry = self.entries[place]
        if entry.kind == "line" and entry.new is not None:
            text = self._hunk(entry).lines[entry.new].text
            return [text[entry.start : entry.start + _PIECE]]
        if entry.kind == "pair":
            lines = self._hunk(entry).lines
            return ["" if at is None else lines[at].text for at in (entry.old, entry.new)]
        return ["".join(line.text + line.joint for line in self._lines(self.sides(place))).rstrip("\n")]

    def _lines(self, sides: list[Side]) -> list[BlockLine]:
        if len(sides) == 1:
            return sides[0].lines
        left, right = self._columns
        return merged(sides[0].lines, sides[1].lines, left, right, self.look.palette)

    @property
    def _columns(self) -> tuple[int, int]:
        left = (self.look.width - len(BETWEEN)) // 2
        return left, self.look.width - len(BETWEEN) - left

    def _fill(self) -> None:
        look, add = self.look, self.entries.append
        if look.listed:
            self.entries += [DiffEntry("listed", number) for number in range(len(self.files))]
        for number, file in enumerate(self.files):
            for at in range(len(file.diff.before)):
                add(DiffEntry("text", number, old=at))
            if not file.diff.path and not file.diff.hunks:
                continue  # only text after the last file
            if look.listed:
                add(DiffEntry("blank", number - 1))
            add(DiffEntry("file", number))
            if look.whole:
                self.entries += [DiffEntry("header", number, old=at) for at in range(len(file.diff.header))]
            elif not file.diff.hunks and look.listed:
                add(DiffEntry("note", number))
            for place, hunk in enumerate(file.diff.hunks):
                if look.whole or place or hunk.new_start > 1 or hunk.heading:
                    add(DiffEntry("hunk", number, place))
                self.entries += self._of_hunk(number, place, hunk)

    def _of_hunk(self, file: int, place: int, hunk: Hunk) -> Iterator[DiffEntry]:
        if self._beside[file]:
            for old, new in beside_places(hunk):
                note = old is not None and not hunk.lines[old].sign
                yield DiffEntry("line", file, place, new=old) if note else DiffEntry("pair", file, place, old, new)
            return
        for index, line in enumerate(hunk.lines):
            yield DiffEntry("line", file, place, new=index)
            if len(line.text) > _PIECE:
                for start in range(_PIECE, len(line.text), _PIECE):
                    yield DiffEntry("line", file, place, new=index, start=start)

    def _height(self, entry: DiffEntry) -> int:
        if entry.kind == "line" and entry.new is not None:
            line = self._hunk(entry).lines[entry.new]
            text = line.text[entry.start : entry.start + _PIECE]
            return self._text_height(text, self.look.width, self._digits[entry.file], line.sign)
        if entry.kind == "pair":
            lines, digits = self._hunk(entry).lines, self._digits[entry.file]
            return max(
                self._text_height(lines[at].text, width, digits, lines[at].sign)
                for at, width in zip((entry.old, entry.new), self._columns, strict=True)
                if at is not None
            )
        if entry.kind == "blank":
            return 1
        return len(self._paint(entry)[0].lines)

    def _text_height(self, text: str, width: int, digits: int, sign: str) -> int:
        columns = columns_of(width, digits, sign)
        if len(text) <= width - columns and EVEN(text) is None:
            return 1
        return len(wrap([(text, Style.null())], width, [(" " * columns, Style.null())]))

    def _hunk(self, entry: DiffEntry) -> Hunk:
        return self.files[entry.file].diff.hunks[entry.hunk]

    def _paint(self, entry: DiffEntry) -> list[Side]:
        look, palette = self.look, self.look.palette
        file = self.files[entry.file] if entry.file >= 0 else None
        if file is None or entry.kind == "blank":
            return [Side([decoration([], look.width)])]
        match entry.kind:
            case "listed":
                return [Side([_listed(file, self._counts_width, look.width, palette)])]
            case "file":
                return [Side(_heading(file, look.width, palette))]
            case "text" | "header":
                texts = file.diff.before if entry.kind == "text" else file.diff.header
                style = palette.muted if entry.kind == "text" else palette.faint
                return [Side(wrap([(texts[entry.old or 0], style)], look.width))]
            case "note":
                return [Side([decoration([("  no lines to show", palette.faint)], look.width)])]
            case "hunk":
                hunk = self._hunk(entry)
                title = hunk.title if look.whole else hunk.heading[:500]
                if look.whole:
                    return [Side(wrap([(title, palette.hunk)], look.width))]
                return [Side([decoration([("⋯ ", palette.hunk), (title, palette.faint)], look.width)])]
        return self._code(entry)

    def _code(self, entry: DiffEntry) -> list[Side]:
        look, palette, digits = self.look, self.look.palette, self._digits[entry.file]
        painted = self._painted_hunk(entry)
        if entry.kind == "line":
            assert entry.new is not None
            if len(painted.lines[entry.new].text) > _PIECE:
                return [Side(self._piece(entry, painted))]
            quiet = self._quiet[entry.file] and not self._beside[entry.file]
            return [Side(line_rows(painted, entry.new, look.width, palette, digits, quiet=quiet))]
        left, right = self._columns
        before = [] if entry.old is None else line_rows(painted, entry.old, left, palette, digits, old=True)
        after = [] if entry.new is None else line_rows(painted, entry.new, right, palette, digits)
        return [Side(before), Side(after, left + len(BETWEEN))]

    def _piece(self, entry: DiffEntry, painted: PaintedHunk) -> list[BlockLine]:
        assert entry.new is not None
        line = painted.lines[entry.new]
        style = base_style(line.sign, self.look.palette)
        digits = self._digits[entry.file]
        columns = columns_of(self.look.width, digits, line.sign)
        number = (line.old if line.sign == "-" else line.new) or ""
        first = f"{number:>{digits}} {line.sign or ' '} " if columns == digits + 3 else line.sign[:columns]
        first = first if not entry.start else " " * columns
        rows = wrap([(line.text[entry.start : entry.start + _PIECE], style)], self.look.width, [(first, style)])
        last = rows[-1]
        joint = "\n" if entry.start + _PIECE >= len(line.text) else ""
        return [*rows[:-1], BlockLine(last.strip, last.text, last.indent, joint)]

    def _painted_hunk(self, entry: DiffEntry) -> PaintedHunk:
        key = (entry.file, entry.hunk)
        if key not in self._painted:
            quiet = self._quiet[entry.file] and not self._beside[entry.file]
            path = self.files[entry.file].diff.path
            self._painted[key] = PaintedHunk(self._hunk(entry), self.look.palette, path, quiet=quiet, whole=True)
        return self._painted[key]


def _has_two_sides(file: FileDiff) -> bool:
    lines = [line for hunk in file.hunks for line in hunk.lines]
    if any(len(line.text) > _PIECE for line in lines):
        return False
    return any(line.sign == "-" for line in lines) and any(line.sign == "+" for line in lines)


def _counts(file: FileView, palette: Palette) -> list[Run]:
    added, removed = file.counts
    if not file.diff.hunks:
        return []
    return [(f"+{added}", palette.success if added else palette.faint), (" ", palette.faint),
            (f"−{removed}", palette.error if removed else palette.faint)]  # fmt: skip


def _listed(file: FileView, column: int, width: int, palette: Palette) -> BlockLine:
    counts = _counts(file, palette)
    runs: list[Run] = [(f"{file.sign} ", palette.accent)]
    runs += [*counts, (" " * (column - size(counts) + 2), palette.faint), (file.name, palette.text)]
    if file.remarks:
        runs.append((f"  {file.remarks}", palette.muted))
    return clip(runs, width)


def _heading(file: FileView, width: int, palette: Palette) -> list[BlockLine]:
    runs: list[Run] = [(f"{file.sign} ", palette.accent), (file.name, palette.strong + palette.hunk)]
    counts = _counts(file, palette)
    runs += [("  ", palette.faint), *counts] if counts else []
    runs += [(f"  {file.remarks}", palette.muted)] if file.remarks else []
    rows = wrap(runs, width)
    room = width - rows[-1].strip.cell_length - 1
    if room >= 2:
        rows[-1] = wrap(
            [*((part.text, part.style or Style.null()) for part in rows[-1].strip), (f" {'─' * room}", palette.rule)],
            width,
        )[0]
    return [BlockLine(row.strip, file.name if place == len(rows) - 1 else "", 0, "\n" if place == len(rows) - 1 else "")
            for place, row in enumerate(rows)]  # fmt: skip
