"""Quiet lines: notices, what commands answered, rules across the transcript, and how a submission ended."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style

from agentcli.tui.blocks.base import Block, Line
from agentcli.tui.blocks.rows import MOST_ROWS, Rows, decoration, gutter, head, joined, margin, tail
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.model import BoundaryItem, EndItem, Level, NoticeItem, OutputItem
from agentcli.tui.palette import Palette

_NOTICE_ROWS = 6
_ERROR_ROWS = 8
_OUTPUT_FIRST = 30
_OUTPUT_LAST = 12
_SIGNS: dict[Level, str] = {"info": "·", "warning": "!", "error": "✗"}
_ENDS: dict[Level, str] = {"info": "✓", "warning": "■", "error": "✗"}


def _style(level: Level, palette: Palette) -> Style:
    return {"warning": palette.warning, "error": palette.error}.get(level, palette.info)


def _signed(sign: str, text: str, style: Style, width: int, rows: int) -> Rows:
    """Text with a sign before its first row, at most so many rows of it."""
    blank = margin(width)
    found = head(text.strip(), width, rows, style, blank)
    if not found.lines:
        return Rows([decoration([(sign, style)], width)])
    if blank:
        first = found.lines[0]
        start = wrap([(first.text, style)], width, [(f"{sign} ", style)], blank)[0]
        found.lines[0] = Line(start.strip, first.text, first.indent, first.joint)
    return found


class NoticeBlock(Block):
    item: NoticeItem

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        style = _style(self.item.level, palette)
        rows = MOST_ROWS if self.expanded else _NOTICE_ROWS
        found = _signed(_SIGNS.get(self.item.level, "·"), self.item.text, style, width, rows)
        self.foldable = self.expanded or bool(found.hidden)
        return joined(found, width, palette, margin(width))


class EndBlock(Block):
    item: EndItem

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        level, rows = self.item.level, MOST_ROWS if self.expanded else _ERROR_ROWS
        style = palette.faint if level == "info" else _style(level, palette)
        parts = [_signed(_ENDS.get(level, "·"), self.item.text, style, width, rows)]
        bar = gutter(width, _style(level, palette))
        parts += [head(error, width, rows, palette.text, bar) for error in self.item.errors]
        self.foldable = self.expanded or any(part.hidden for part in parts)
        return [line for part in parts for line in joined(part, width, palette, bar)]

    @property
    def source(self) -> str:
        return "\n".join([self.item.text, *self.item.errors])


class BoundaryBlock(Block):
    item: BoundaryItem

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        text = " ".join(self.item.text[:1_000].split())
        row = wrap([(f" {text} ", palette.muted)], max(1, width))
        room = width - cell_len(row[0].strip.text)
        if not text:
            return [decoration([("─" * width, palette.faint)], width)]
        if len(row) > 1 or room < 4:
            return wrap([(text, palette.muted)], width)
        left = room // 2
        first: list[Run] = [("─" * left, palette.faint)]
        line = wrap([(f" {text} ", palette.muted), ("─" * (room - left), palette.faint)], width, first)[0]
        return [Line(line.strip, text, left + 1)]


class OutputBlock(Block):
    """The answer to a command. Both of its ends are shown: of a listing one wants the first lines, of a shell line
    the last."""

    item: OutputItem

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        if self.item.title:
            return self._titled(width, palette)
        lines = self._all(width, palette) if self.item.kind != "text" else self._text(width, palette)
        return lines or [decoration([*margin(width), ("(no output)", palette.faint)], width)]

    def _titled(self, width: int, palette: Palette) -> list[Line]:
        self.foldable = bool(self.item.text.strip())
        sign = ("▾ " if self.expanded else "▸ ") if self.foldable else "  "
        lines = wrap([(self.item.title, palette.muted)], width, [(sign, palette.faint)] if width >= 8 else [])
        return [*lines, *self._all(width, palette)] if self.expanded else lines

    def _before(self, width: int, palette: Palette) -> list[Run]:
        return gutter(width, palette.error) if self.item.failed else margin(width)

    def _all(self, width: int, palette: Palette) -> list[Line]:
        from agentcli.tui.blocks import displays

        before = self._before(width, palette)
        view = displays.View(width, palette, expanded=self.expanded or self.item.kind != "diff", before=before)
        if self.item.kind == "markdown":
            return displays.markdown(self.item.text, view, MOST_ROWS).lines
        if self.item.kind == "diff":
            found = displays.diff_rows(self.item.text, view, "")
            self.foldable = self.expanded or bool(found.hidden)
            return joined(found, width, palette, before)
        return joined(head(self.item.text, width, MOST_ROWS, palette.text, before), width, palette, before)

    def _text(self, width: int, palette: Palette) -> list[Line]:
        before = self._before(width, palette)
        text = self.item.text.strip("\n")
        first = head(text, width, _OUTPUT_FIRST + _OUTPUT_LAST, palette.text, before)
        self.foldable = self.expanded or bool(first.hidden)
        if not first.hidden:
            return first.lines
        if self.expanded:
            return self._all(width, palette)
        # Cut out of the middle: what was wrapped for the first part beyond its rows is the price of counting once.
        return [*_middle(text, width, palette, before)]


def _middle(text: str, width: int, palette: Palette, before: Sequence[Run]) -> list[Line]:
    first = head(text, width, _OUTPUT_FIRST, palette.text, before)
    last = tail(text, width, _OUTPUT_LAST, palette.text, before)
    total = text.count("\n") + 1
    hidden = max(1, first.hidden + last.hidden - total)
    return [*joined(Rows(first.lines, hidden), width, palette, before), *last.lines]
