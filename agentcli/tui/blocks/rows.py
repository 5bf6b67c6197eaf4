"""Cut long text to rows and rows to a width, reading only the part that is shown, also of text that grows without
bound.

Defines how folding counts hidden lines and how it reports them, and translates the colours of programs to the theme.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.frozen import frozen
from agentcli.core.text.columns import find_hanging_indent
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import continue_output
from agentcli.core.text.terminal_colours import ATTRIBUTES, ColourSpan, moved
from agentcli.tui.blocks.base import BlockLine, Run, clip, wrap
from agentcli.tui.theme.palette import Palette

Runs = list[Run]


class Coloured:
    """Styles for a text with colour spans. Without colours, attributes such as bold and reverse are left."""

    def __init__(self, spans: Sequence[ColourSpan], palette: Palette, base: Style) -> None:
        self._spans = spans
        self._starts = [start for start, _end, _look in spans]
        self._base = base
        self._palette = palette

    def runs(self, text: str, start: int, end: int) -> list[Run]:
        """A part of the text as runs."""
        found: list[Run] = []
        place = start
        for first, last, look in self._spans[max(0, bisect_right(self._starts, start) - 1) :]:
            if first >= end:
                break
            if last <= place:
                continue
            first, last = max(first, place), min(last, end)
            found += [(text[place:first], self._base), (text[first:last], _style(look, self._palette, self._base))]
            place = last
        return [run for run in (*found, (text[place:end], self._base)) if run[0]]


def _style(look: str, palette: Palette, base: Style) -> Style:
    attributes, colour = _translate(look)
    if not colour or not palette.colours:
        return base + attributes
    return base + attributes + Style(color=_hue(colour, palette).color)


@lru_cache(maxsize=128)
def _translate(look: str) -> tuple[Style, str]:
    words = look.split()
    attributes = {word: True for word in ATTRIBUTES if word in words}
    return Style(**attributes), next((word for word in words if word not in ATTRIBUTES), "")  # type: ignore[arg-type]


def _hue(name: str, palette: Palette) -> Style:
    hues = {
        "red": palette.error,
        "green": palette.success,
        "yellow": palette.warning,
        "blue": palette.link,
        "magenta": palette.syntax.get("keyword", palette.accent),
        "cyan": palette.code,
        "grey": palette.muted,
    }
    return hues.get(name, palette.text)


MAX_ROWS = 4_000
"""Maximum number of rows of an expanded block. More would block the screen, and nobody reads them there."""
_CHARACTERS_PER_CELL = 4
"""Characters read per cell: some have no width, but a line of only those must not be read to its end."""


@frozen
class Rows:
    lines: list[BlockLine] = field(default_factory=list)
    hidden: int = 0
    opens: bool = False
    """Whether expanding shows more although no row is missing."""
    above: bool = False
    """Whether the hidden lines are before the rows instead of after them."""


def gutter(width: int, style: Style) -> list[Run]:
    if width >= 24:
        return [("  │ ", style)]
    return [("│ ", style)] if width >= 8 else []


def margin(width: int, cells: int = 2) -> list[Run]:
    return [(" " * cells, Style.null())] if width >= cells + 6 else []


def size(runs: Iterable[Run]) -> int:
    return sum(cell_len(text) for text, _style in runs)


def cut(text: str, width: int) -> str:
    """Cut one line of text with columns: an ellipsis only where the cut is inside of one."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    kept = set_cell_size(text, width - 1)
    # If the cut is between two columns the rest is complete, so an ellipsis would be misleading.
    return kept.rstrip() if kept.endswith("  ") else kept.rstrip() + "…"


def cut_runs(runs: Sequence[Run], width: int) -> Runs:
    """Cut one row, like `cut`."""
    if size(runs) <= width:
        return list(runs)
    kept: Runs = []
    room = max(0, width)
    for text, style in runs:
        cells = cell_len(text)
        if cells >= room:
            kept.append((cut(text if cells > room else text + " ", room), style))
            break
        kept.append((text, style))
        room -= cells
    return kept


def join_runs(parts: Iterable[Runs], separator: Run) -> Runs:
    joint: Runs = []
    for part in parts:
        joint += [separator, *part] if joint else part
    return joint


def style_text(text: str, start: int, end: int, style: Style | Coloured) -> list[Run]:
    """A part of a text as runs."""
    return style.runs(text, start, end) if isinstance(style, Coloured) else [(text[start:end], style)]


def head(
    text: str, width: int, rows: int, style: Style | Coloured, before: Sequence[Run] = (), *, in_columns: bool = False
) -> Rows:
    """The first rows. If only one more is left, it is included: a line about it would take as much room. `in_columns`:
    rows that continue a line begin below its last column."""
    text = text.rstrip("\n")
    if not text.strip():
        return Rows()
    lines: list[BlockLine] = []
    complete: list[int] = []
    most, place = characters(width, rows), 0
    while len(lines) <= rows + 1 and place <= len(text):
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        rest = _continue_row(text[place:end], width, before) if in_columns else before
        lines += wrap(style_text(text, place, min(end, place + most), style), width, before, rest)
        if end - place <= most:
            complete.append(len(lines))
        place = end + 1
    return _cut(lines, complete, text.count("\n") + 1, rows)


def _continue_row(line: str, width: int, before: Sequence[Run]) -> Sequence[Run]:
    return [*before, (" " * find_hanging_indent(line, width - size(before)), Style.null())]


def tail(
    text: str, width: int, rows: int, style: Style | Coloured, before: Sequence[Run] = (), *, in_columns: bool = False
) -> Rows:
    text = text.rstrip("\n")
    if not text.strip():
        return Rows()
    parts: list[list[BlockLine]] = []
    complete: list[int] = []
    most, end, taken = characters(width, rows), len(text), 0
    while taken <= rows + 1 and end >= 0:
        start = text.rfind("\n", 0, end) + 1
        # Skip in whole steps: a start that moves with every character would wrap differently each time.
        skipped = max(0, (end - start) // most - 1) * most
        rest = _continue_row(text[start:end], width, before) if in_columns else before
        part = wrap(style_text(text, start + skipped, end, style), width, before, rest)
        parts.append(part)
        taken += len(part)
        if not skipped:
            complete.append(taken)
        end = start - 1
    lines = [line for part in reversed(parts) for line in part]
    kept = _cut(lines[::-1], complete, text.count("\n") + 1, rows)
    return Rows(kept.lines[::-1], kept.hidden, above=True)


def fold_rows(groups: Iterable[Sequence[BlockLine]], total: int, rows: int) -> Rows:
    """The first rows of groups, consumed only as far as shown. A group is a source line; `total` is their number."""
    lines: list[BlockLine] = []
    complete: list[int] = []
    for group in groups:
        lines += group
        complete.append(len(lines))
        if len(lines) > rows + 1:
            return _cut(lines, complete, total, rows)
    return Rows(lines)


def _cut(lines: list[BlockLine], complete: list[int], total: int, rows: int) -> Rows:
    """Cut the rows, at the end of a source line if there is one in the lower half."""
    if len(lines) <= rows + 1 and len(complete) == total:
        return Rows(lines)
    whole = [count for count in complete if count <= rows]
    end = whole[-1] if whole and whole[-1] > rows // 2 else rows
    return Rows(lines[:end], max(1, total - len(whole)))


def characters(width: int, rows: int) -> int:
    return max(width, 8) * (rows + 2) * _CHARACTERS_PER_CELL


def join_rows(rows: Rows, width: int, palette: Palette, before: Sequence[Run] = ()) -> list[BlockLine]:
    if not rows.hidden:
        return rows.lines
    text = f"… {counted(rows.hidden, 'more line')}{' above' if rows.above else ''}"
    key = " · Ctrl+O" if cell_len(text) + 9 <= width - size(before) else ""
    note = decoration([*before, (text, palette.muted), (key, palette.faint)], width)
    return [note, *rows.lines] if rows.above else [*rows.lines, note]


def decoration(runs: Sequence[Run], width: int) -> BlockLine:
    return BlockLine(clip(runs, max(1, width)).strip, "", 0, "")


def beside(lines: Iterable[BlockLine], before: Sequence[Run]) -> list[BlockLine]:
    if not before:
        return list(lines)
    segments = [Segment(text, style) for text, style in before]
    cells = size(before)
    return [
        BlockLine(
            Strip([*segments, *line.strip], cells + line.strip.cell_length), line.text, line.indent + cells, line.joint
        )
        for line in lines
    ]


def fill_row(line: BlockLine, width: int, style: Style) -> BlockLine:
    """Fill the row up to the width with the background of a style, if the style has one."""
    missing = width - line.strip.cell_length
    if missing <= 0 or not (style.bgcolor or style.reverse):
        return line
    return BlockLine(Strip([*line.strip, Segment(" " * missing, style)], width), line.text, line.indent, line.joint)


def shorten(text: str, cells: int) -> str:
    """Cut one line of text to `cells` cells, with an ellipsis if something was cut."""
    text = text[: max(0, cells) * _CHARACTERS_PER_CELL + 1]
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""


MAX_KEPT = 64_000
"""Characters that are kept; the text is cut at twice as many, so that cutting is rare."""
_OPEN_ROWS = 200
"""Maximum number of rows of the last, unfinished line, which is wrapped again at every layout."""


class LiveText:
    def __init__(self, text: str = "", line_breaks: int = 0) -> None:
        self.text = ""
        self._colours: list[ColourSpan] = []
        self._dropped = 0
        self.forget()
        self.add(text)
        self.count_lines(line_breaks)

    def add(self, text: str, colours: Iterable[ColourSpan] = ()) -> None:
        """Add text. `colours` are those of the text without the carriage return at its beginning."""
        if len(text) > MAX_KEPT:
            self._dropped += text.count("\n", 0, len(text) - MAX_KEPT)
            text, colours = text[-MAX_KEPT:], ()
        start = self.text.rfind("\n") + 1 if text.startswith("\r") else len(self.text)
        if self._colours and start < len(self.text):
            self._colours = list(moved(self._colours, 0, start))
        self.text = continue_output(self.text, text)
        if colours:
            self._colours += moved(colours, start, len(self.text))
        if len(self.text) > 2 * MAX_KEPT:
            cut = len(self.text) - MAX_KEPT
            cut = self.text.find("\n", cut, cut + MAX_KEPT // 2) + 1 or cut
            self._dropped += self.text.count("\n", 0, cut)
            self.text = self.text[cut:]
            self._colours = list(moved(self._colours, -cut, len(self.text)))
            self.forget()

    def count_lines(self, line_breaks: int) -> None:
        """Set the number of line breaks of all text so far, including text never added. It never decreases."""
        self._dropped = max(self._dropped, line_breaks - self.text.count("\n"))

    def forget(self) -> None:
        self._wrapped: list[BlockLine] = []
        self._wrapped_to = 0
        self._shown: object = None

    def tail(self, width: int, rows: int, palette: Palette, style: Style, before: Sequence[Run] = ()) -> Rows:
        found = tail(self.text, width, rows, self._look_of(palette, style), before)
        return Rows(found.lines, found.hidden + self._dropped, above=True) if found.lines else found

    def all(self, width: int, palette: Palette, style: Style, before: Sequence[Run] = ()) -> Rows:
        shown = (width, palette, style, tuple(before))
        if shown != self._shown:
            self.forget()
            self._shown = shown
        look = self._look_of(palette, style)
        end = self.text.rfind("\n") + 1
        if end > self._wrapped_to:
            self._wrapped += wrap(style_text(self.text, self._wrapped_to, end - 1, look), width, before, before)
            self._wrapped_to = end
        rest = tail(self.text[end:], width, _OPEN_ROWS, self._look_of(palette, style, end), before)
        return Rows([*self._wrapped, *rest.lines], self._dropped + rest.hidden, above=True)

    def _look_of(self, palette: Palette, style: Style, start: int = 0) -> Style | Coloured:
        """Styles of the text from `start` on."""
        if not self._colours:
            return style
        return Coloured(list(moved(self._colours, -start, len(self.text))), palette, style)
