"""Blocks for notices, command output, separator lines, and the end of a submission."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.rows import MAX_ROWS, Rows, decoration, gutter, head, joined, margin, tail
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.model import BoundaryItem, EndItem, Level, NoticeItem, OutputItem
from agentcli.tui.theme.palette import Palette

_NOTICE_ROWS = 6
_ERROR_ROWS = 8
_OUTPUT_FIRST = 30
_OUTPUT_LAST = 12
_SIGNS: dict[Level, str] = {"info": "·", "warning": "!", "error": "✗"}
_ENDS: dict[Level, str] = {"info": "✓", "warning": "■", "error": "✗"}


def _style(level: Level, palette: Palette) -> Style:
    return {"warning": palette.warning, "error": palette.error}.get(level, palette.info)


def _signed(sign: str, text: str, style: Style, width: int, rows: int) -> Rows:
    blank = margin(width)
    found = head(text.strip(), width, rows, style, blank)
    if not found.lines:
        return Rows([decoration([(sign, style)], width)])
    if blank:
        first = found.lines[0]
        start = wrap([(first.text, style)], width, [(f"{sign} ", style)], blank)[0]
        found.lines[0] = BlockLine(start.strip, first.text, first.indent, first.joint)
    return found


class NoticeBlock(Block):
    item: NoticeItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        style = _style(self.item.level, palette)
        rows = MAX_ROWS if self.expanded else _NOTICE_ROWS
        found = _signed(_SIGNS.get(self.item.level, "·"), self.item.text, style, width, rows)
        self.foldable = self.expanded or bool(found.hidden)
        return joined(found, width, palette, margin(width))


class EndBlock(Block):
    item: EndItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        level, rows = self.item.level, MAX_ROWS if self.expanded else _ERROR_ROWS
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

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
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
        return [BlockLine(line.strip, text, left + 1)]


class OutputBlock(Block):
    """Output of a command. Long text shows both ends: the start matters in listings, the end in shell output."""

    item: OutputItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        item = self.item
        before = gutter(width, palette.error) if item.failed else margin(width)
        if item.title:
            self.foldable = bool(item.text.strip())
            sign = "  " if not self.foldable else "▾ " if self.expanded else "▸ "
            title = wrap([(item.title, palette.muted)], width, [(sign, palette.faint)] if width >= 8 else [])
            return [*title, *self._body(width, palette, before)] if self.expanded else title
        if item.failed and item.kind == "text" and width >= 8:
            return wrap([(item.text.strip("\n"), palette.text)], width, [("✗ ", palette.error)])[:MAX_ROWS]
        body = self._body(width, palette, before)
        return body or [decoration([*before, ("(no output)", palette.faint)], width)]

    def _body(self, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        if self.item.kind == "text":
            return self._text(width, palette, before)
        from agentcli.tui.blocks import displays

        view = displays.DisplayView(width, palette, self.expanded, before)
        if self.item.kind == "markdown":
            return joined(displays.markdown(self.item.text, view, MAX_ROWS), width, palette, before)
        found = displays.diff_rows(self.item.text, view, "")
        self.foldable = self.expanded or bool(found.hidden)
        return joined(found, width, palette, before)

    def _text(self, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        text = self.item.text.strip("\n")
        rows = MAX_ROWS if self.expanded else _OUTPUT_FIRST + _OUTPUT_LAST
        found = head(text, width, rows, palette.text, before, in_columns=True)
        self.foldable = self.expanded or bool(found.hidden)
        if self.expanded or not found.hidden:
            return joined(found, width, palette, before)
        first = head(text, width, _OUTPUT_FIRST, palette.text, before, in_columns=True)
        last = tail(text, width, _OUTPUT_LAST, palette.text, before, in_columns=True)
        hidden = max(1, first.hidden + last.hidden - text.count("\n") - 1)
        return [*joined(Rows(first.lines, hidden), width, palette, before), *last.lines]
