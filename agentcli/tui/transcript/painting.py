"""Rows as painted on the screen: indented, padded to the width, on the background, with highlights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.transcript.copying import snap
from agentcli.tui.transcript.stack import StackEntry

StyledCells = tuple[int, int | None, Style]
"""Start cell, end cell (None: the end of the row's text) and a style to apply on top."""


def paint(
    strip: Strip, width: int, base: Style, spans: Sequence[StyledCells] = (), margins: tuple[int, int] = (0, 0)
) -> Strip:
    """Paint a row of exactly `width` cells, plus margins on both sides."""
    before, behind = margins
    missing = max(0, width - strip.cell_length)
    if strip.cell_length > width:
        strip = strip.crop(0, width)
    segments = [Segment(" " * before)] if before else []
    segments.extend(segment for segment in strip if segment.text)
    if missing + behind:
        segments.append(Segment(" " * (missing + behind)))
    painted = Strip(Segment.apply_style(segments, base), before + width + behind)
    if spans:
        text_end = cell_len(strip.text.rstrip())
        for start, end, style in spans:
            end = min(width, text_end if end is None else end)
            painted = _over(painted, before + max(0, start), before + end, style)
    return painted


def _over(strip: Strip, start: int, end: int, style: Style) -> Strip:
    width = strip.cell_length
    start, end = snap(strip.text, start, end)
    if end <= start:
        return strip
    segments: list[Segment] = []
    parts: Iterable[tuple[Strip, bool]] = (
        (strip.crop(0, start), False),
        (strip.crop(start, end), True),
        (strip.crop(end, width), False),
    )
    for part, marked in parts:
        segments.extend(Segment.apply_style(part, post_style=style) if marked else part)
    return Strip([segment for segment in segments if segment.text], width)


class Ground(NamedTuple):
    width: int
    margins: tuple[int, int]
    base: Style

    @property
    def blank(self) -> Strip:
        return Strip.blank(self.width + sum(self.margins), self.base)


class Canvas:
    """The visible rows as last painted. Unchanged rows keep the same strip object, which the compositor has cached."""

    def __init__(self) -> None:
        self.rows: list[tuple[StackEntry, int]] = []
        self.strips: list[Strip] = []
        self._ground: Ground | None = None
        self._known: dict[tuple[int, tuple[StyledCells, ...]], tuple[BlockLine, Strip]] = {}
        """Strips of the last frame. The line is stored too, so that its id is not reused."""

    def draw(
        self,
        rows: list[tuple[StackEntry, int]],
        height: int,
        ground: Ground,
        highlights: Callable[[StackEntry, int, BlockLine], tuple[StyledCells, ...]],
    ) -> list[tuple[int, int]]:
        """Paint rows of laid out blocks. Return the changed runs of rows, as first row and count."""
        before = self.strips
        known = self._known if ground == self._ground else {}
        self.rows, self.strips, self._ground, self._known = rows, [], ground, {}
        for entry, row in rows:
            if row < 0 or entry.lines is None:
                self.strips.append(ground.blank)
                continue
            line = entry.lines[row]
            spans = highlights(entry, row, line)
            key = (id(line), spans)
            painted = known.get(key)
            if painted is None:
                painted = line, paint(line.strip, ground.width, ground.base, spans, ground.margins)
            self._known[key] = painted
            self.strips.append(painted[1])
        self.strips.extend([ground.blank] * (height - len(rows)))
        return _differences(before, self.strips)


def _differences(before: list[Strip], now: list[Strip]) -> list[tuple[int, int]]:
    if len(before) != len(now):
        return [(0, len(now))]
    runs: list[tuple[int, int]] = []
    start = -1
    for row, (old, new) in enumerate(zip([*before, None], [*now, None], strict=True)):
        if old is not new:
            start = row if start < 0 else start
        elif start >= 0:
            runs.append((start, row - start))
            start = -1
    return runs
