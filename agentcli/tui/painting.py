"""One row as it goes to the screen: moved right, filled up to the width, on the background, with its highlights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.tui.copying import snap

Span = tuple[int, int | None, Style]
"""Cells from, up to (None: the end of the row's text) and the style that goes over what is there."""


def paint(
    strip: Strip, left: int, width: int, base: Style, spans: Sequence[Span] = (), margins: tuple[int, int] = (0, 0)
) -> Strip:
    """Exactly `width` cells, and margins on both sides of them."""
    segments = [Segment(" " * left)] if left else []
    segments.extend(segment for segment in strip if segment.text)
    missing = width - left - strip.cell_length
    if missing > 0:
        segments.append(Segment(" " * missing))
    painted = Strip(Segment.apply_style(segments, base), left + strip.cell_length + max(0, missing))
    if missing < 0:
        painted = painted.crop(0, width)
    if spans:
        text_end = left + cell_len(strip.text.rstrip())
        for start, end, style in spans:
            painted = _over(painted, start, text_end if end is None else end, style)
    return painted.crop_pad(width, *margins, base)


def _over(strip: Strip, start: int, end: int, style: Style) -> Strip:
    width = strip.cell_length
    start, end = snap(strip.text, max(0, start), min(width, end))
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
