"""What all blocks share: their base class, their lines, and wrapping styled text into lines.

`wrap` is the only place where text becomes cells. Remaining control characters are replaced by symbols, so a strip
never contains anything that a terminal would obey. Widths are those of Rich, which the compositor uses too. Text whose
width Rich and terminals disagree on (a joiner between letters, a skin tone without an emoji) is painted differently
(see `glyphs`).

`layout` is called again only when the block or the width changed, or when the lines were dropped to save memory, so it
may be expensive; each frame only paints the lines' strips. Blocks know nothing of the screen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.plaintext import TAB
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.glyphs import EVEN, Glyph, clean, glyphs, width_of
from agentcli.tui.model import Item, NoticeItem, OutputItem, PromptItem, ToolItem, pack_item
from agentcli.tui.progress import AgentItem
from agentcli.tui.theme.palette import Palette


@dataclass(frozen=True, slots=True)
class BlockLine:
    """One row. `strip` is painted and is never wider than the requested width; the other fields are for copying."""

    strip: Strip
    text: str = ""
    """Text copied for the whole row: source text without gutter, padding and decoration."""
    indent: int = 0
    joint: str = "\n"
    """Source text between this row and the next: a line break, or the blank at which the line was wrapped."""


class Block(ABC):
    """A block of the transcript, which owns it. `expanded` shows the parts that are otherwise folded."""

    foldable = False
    """Whether expanding shows more; a click on a foldable block toggles it."""

    behind = False
    """Whether the last `layout` left part of the text to the next call, because all at once would take too long."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.expanded = False

    @abstractmethod
    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        """Return all lines at this width. Called again after a change; unchanged parts may be cached, and the returned
        list may be the same one, changed in place. Never raises for any text and any width from 1 up."""

    def replace(self, item: Item) -> None:
        self.item = item
        self.forget()

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        raise NotImplementedError

    def count_lines(self, line_breaks: int) -> None:  # noqa: B027 -- only calls have output that `grow` omits
        """Set the number of line breaks of the whole output, including the part that never came with `grow`."""

    def forget(self) -> None:  # noqa: B027 -- most blocks cache nothing
        """Drop everything that `layout` can compute again."""

    def pack(self) -> None:
        """Compress and deduplicate long texts, for a block far above the visible part. Its fields read as before."""
        pack_item(self.item)

    def tick(self, now: float) -> bool:
        """Update live values such as durations. Called a few times a second while the block is visible and active.
        Return whether its lines change."""
        return False

    @property
    def source(self) -> str:
        return str(getattr(self.item, "text", ""))


def gap(before: Item, after: Item) -> int:
    """Number of blank rows between two consecutive blocks."""
    if isinstance(before, ToolItem | AgentItem) and isinstance(after, ToolItem | AgentItem):
        return 0
    if isinstance(before, NoticeItem) and isinstance(after, NoticeItem):
        return 0
    if isinstance(before, PromptItem) and isinstance(after, OutputItem):
        return 0
    return 1


Run = tuple[str, Style]
RowBounds = tuple[int, int, int]
"""Indexes in a text: start of a row, its end, start of the next row. Blanks between the last two are dropped."""

_TOO_WIDE = "▯"
_CLOSING = frozenset("、。，．！？：；）」』】〉》〕］｝ー々…—ぁぃぅぇぉっゃゅょァィゥェォッャュョ")
_OPENING = frozenset("（「『【〈《〔［｛")


def wrap(
    runs: Sequence[Run], width: int, first: Sequence[Run] = (), rest: Sequence[Run] | None = None
) -> list[BlockLine]:
    """Wrap at blanks and between ideographs; cut a word wider than a line. Line breaks start a new line.

    `first` precedes the first line and `rest` (default: blanks of the same width) all others; both are decoration that
    copying omits. Joining the `text` of the lines by their `joint` restores the text exactly, except that control
    characters and lone surrogates stay replaced. A tab stays a tab in `text` and is painted up to the next multiple of
    `TAB` cells from the beginning of the row.
    """
    runs = [(clean(text), style) for text, style in runs if text]
    text = runs[0][0] if len(runs) == 1 else "".join([part for part, _style in runs])
    head = _Margin(first, width)
    even = EVEN(text) is None
    if even and len(text) <= width - head.cells and "\n" not in text:  # fast path for most code and output
        cells = head.cells + len(text)
        return [BlockLine(Strip([*head.segments, *(Segment(*run) for run in runs)], cells), text, head.cells)]
    body = _Margin(first if rest is None else rest, width, blank=rest is None)
    painter = _Painter(runs, text)
    lines: list[BlockLine] = []
    start = 0
    for part in text.split("\n"):
        margin = body if lines else head
        if even or EVEN(part) is None:
            lines += painter.even(start, start + len(part), margin, body, width)
        else:
            lines += painter.uneven(start, part, margin, body, width)
        start += len(part) + 1
    return lines


def clip(runs: Sequence[Run], width: int) -> BlockLine:
    """One line, cut with an ellipsis if it does not fit. Line breaks and tabs become blanks. `text` is complete."""
    flat = [(clean(text).replace("\n", " ").replace("\t", " "), style) for text, style in runs if text]
    whole = "".join([text for text, _style in flat])
    if len(whole) <= 8 * width and width_of(whole) <= width:
        return wrap(flat, width)[0]
    segments: list[Segment] = []
    used = 0
    for text, style in flat:
        kept = ""
        for _source, shown, cells in glyphs(text[: 8 * width]):
            if used + cells >= width:
                segments.append(Segment(kept + "…", style))
                return BlockLine(Strip(segments, used + 1), whole)
            kept += shown
            used += cells
        segments.append(Segment(kept, style))
    segments.append(Segment("…"))
    return BlockLine(Strip(segments, used + 1), whole)


class _Margin:
    def __init__(self, runs: Sequence[Run], width: int, *, blank: bool = False) -> None:
        self.cells = sum([width_of(text) for text, _style in runs]) if runs else 0
        self.segments: list[Segment] = []
        if not self.cells:
            return
        if blank:
            self.cells = min(self.cells, max(0, width - 1))
            self.segments = [Segment(" " * self.cells, Style.null())]
            return
        self.segments = [Segment(text, style) for text, style in runs if text]
        if self.cells >= width:
            self.cells = max(0, width - 1)
            self.segments = list(Strip(self.segments).crop(0, self.cells))


class _Painter:
    def __init__(self, runs: Sequence[Run], text: str) -> None:
        self._runs = runs
        self._text = text
        self._ends = list(accumulate(len(part) for part, _style in runs))

    def even(self, start: int, end: int, margin: _Margin, body: _Margin, width: int) -> list[BlockLine]:
        text = self._text
        lines: list[BlockLine] = []
        for begin, stop, following in _even_rows(text, start, end, width - margin.cells, width - body.cells):
            if following > end:
                source, joint = text[begin:end], "\n"
            else:
                source, joint = text[begin:stop], text[stop:following]
            strip = Strip(margin.segments + self._cut(begin, stop), margin.cells + stop - begin)
            lines.append(BlockLine(strip, source, margin.cells, joint))
            margin = body
        return lines

    def uneven(self, start: int, part: str, margin: _Margin, body: _Margin, width: int) -> list[BlockLine]:
        line = glyphs(part)
        places = list(accumulate((len(source) for source, _shown, _width in line), initial=start))
        lines: list[BlockLine] = []
        for begin, stop, following in _uneven_rows(line, width - margin.cells, width - body.cells):
            last = following > len(line)
            source = self._text[places[begin] : places[len(line) if last else stop]]
            joint = "\n" if last else self._text[places[stop] : places[following]]
            segments, cells = self._paint(line[begin:stop], places[begin], width - margin.cells)
            lines.append(
                BlockLine(Strip(margin.segments + segments, margin.cells + cells), source, margin.cells, joint)
            )
            margin = body
        return lines

    def _cut(self, begin: int, end: int) -> list[Segment]:
        if begin >= end:
            return []
        if len(self._runs) == 1:
            return [Segment(self._text[begin:end], self._runs[0][1])]
        found: list[Segment] = []
        number = self._run_at(begin)
        while begin < end:
            stop = min(self._ends[number], end)
            found.append(Segment(self._text[begin:stop], self._runs[number][1]))
            begin = stop
            number += 1
        return found

    def _paint(self, row: Sequence[Glyph], place: int, room: int) -> tuple[list[Segment], int]:
        """Paint glyphs. A glyph has the style of its first character, so marks of another style do not split it."""
        found: list[Segment] = []
        if not row:
            return found, 0
        number = self._run_at(place)
        cells, shown_text = 0, ""
        for source, shown, width in row:
            if place >= self._ends[number]:
                found.append(Segment(shown_text, self._runs[number][1]))
                number, shown_text = self._run_at(place), ""
            if source == "\t":
                width = min(TAB - cells % TAB, room - cells)
                shown = " " * width
            elif width > room:
                shown, width = _TOO_WIDE, 1
            shown_text += shown
            cells += width
            place += len(source)
        found.append(Segment(shown_text, self._runs[number][1]))
        return found, cells

    def _run_at(self, place: int) -> int:
        return bisect_right(self._ends, place, 0, len(self._ends) - 1)


def _even_rows(text: str, start: int, end: int, room: int, rest: int) -> Iterator[RowBounds]:
    """Row bounds where every character is one cell. A `following` beyond `end` marks the last row, whose trailing
    blanks may exceed the painted part."""
    while end - start > room:
        place = text.rfind(" ", start, start + room + 1)
        stop = place
        while stop > start and text[stop - 1] == " ":
            stop -= 1
        if place < 0 or stop == start:  # one long word, possibly after an indentation
            blanks = start
            while blanks < end and text[blanks] == " ":
                blanks += 1
            if blanks >= end:
                break
            if blanks >= start + room:
                yield start, start, blanks
                start = blanks
            else:
                yield start, start + room, start + room
                start += room
        else:
            following = place + 1
            while following < end and text[following] == " ":
                following += 1
            if following >= end:
                yield start, stop, end + 1
                return
            yield start, stop, following
            start = following
        room = rest
    yield start, min(end, start + room), end + 1


def _uneven_rows(line: Sequence[Glyph], room: int, rest: int) -> Iterator[RowBounds]:
    start = place = cells = 0
    opportunity = 0
    """Index where the next row could begin; `start` if there is no such place yet."""
    inked = False
    while place < len(line):
        source, _shown, width = line[place]
        blank = source in " \t"
        if source == "\t":
            width = min(TAB - cells % TAB, max(1, room - cells))
        if cells + width <= room or (place == start and not blank):
            if blank:
                opportunity = place + 1 if inked else start
            else:
                if width > 1 and place > start and source not in _CLOSING and line[place - 1][0] not in _OPENING:
                    opportunity = place
                inked = True
            cells += width
            place += 1
            if width <= 1 or blank or place >= len(line):
                continue
            if line[place][0] not in _CLOSING and source not in _OPENING:
                opportunity = place
            continue
        following = place if blank or opportunity == start else opportunity
        while following < len(line) and line[following][0] in " \t":
            following += 1
        if following >= len(line):
            break
        stop = following
        while stop > start and line[stop - 1][0] in " \t":
            stop -= 1
        yield start, stop, following
        start = place = opportunity = following
        cells, inked, room = 0, False, rest
    yield start, place, len(line) + 1
