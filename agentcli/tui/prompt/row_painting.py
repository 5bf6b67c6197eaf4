"""Paint one row of the prompt: part of a line with chips, selection and cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style

StyledColumns = tuple[int, int, Style]
"""Start column, end column, and a style to apply on top."""


def painted(
    line: str, begin: int, end: int, spans: Sequence[StyledColumns], tab_widths: Iterable[int]
) -> Iterator[Segment]:
    """Segments of the part of a line that is in one row. Later spans override earlier ones; `tab_widths` are those of
    the part's tabs. A row at the end of a line gets a trailing blank for the cursor."""
    places = sorted({begin, end} | {at for start, stop, _look in spans for at in (start, stop) if begin < at < end})
    widths = iter(tab_widths)
    for start, stop in pairwise(places):
        style = _style_at(spans, start)
        text = line[start:stop]
        while "\t" in text:
            before, _tab, text = text.partition("\t")
            yield Segment(before + " " * next(widths, 1), style)
        if text:
            yield Segment(text, style)
    if end == len(line):
        yield Segment(" ", _style_at(spans, end))


def _style_at(spans: Sequence[StyledColumns], column: int) -> Style | None:
    looks = [look for start, stop, look in spans if start <= column < stop]
    return Style.combine(looks) if looks else None
