"""Blocks of all items except calls, agents and answers: notices, command output, separators, ends, thinking, prompts,
greeting; and `make_block`, which creates the block for any item."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.format import counted, format_elapsed
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tui.blocks.base import Block, BlockLine, Run, wrap
from agentcli.tui.blocks.rows import (
    MAX_ROWS,
    Rows,
    decoration,
    fill_row,
    gutter,
    head,
    join_rows,
    margin,
    size,
    tail,
)
from agentcli.tui.blocks.tool import ToolBlock
from agentcli.tui.model import (
    AnswerItem,
    BoundaryItem,
    EndItem,
    Item,
    Level,
    NoticeItem,
    OutputItem,
    PromptItem,
    ThinkingItem,
    ToolItem,
    WelcomeItem,
)
from agentcli.tui.progress import AgentItem
from agentcli.tui.theme.palette import Palette

_NOTICE_ROWS = 6
_ERROR_ROWS = 8
_OUTPUT_FIRST = 30
_OUTPUT_LAST = 12
_SIGNS: dict[Level, str] = {"info": "·", "warning": "!", "error": "✗"}
_ENDS: dict[Level, str] = {"info": "✓", "warning": "■", "error": "✗"}


def _style(level: Level, palette: Palette) -> Style:
    return {"warning": palette.warning, "error": palette.error}.get(level, palette.info)


def _lay_out_signed(sign: str, text: str, style: Style, width: int, rows: int) -> Rows:
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
        found = _lay_out_signed(_SIGNS.get(self.item.level, "·"), self.item.text, style, width, rows)
        self.foldable = self.expanded or bool(found.hidden)
        return join_rows(found, width, palette, margin(width))


class EndBlock(Block):
    item: EndItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        level, rows = self.item.level, MAX_ROWS if self.expanded else _ERROR_ROWS
        style = palette.faint if level == "info" else _style(level, palette)
        parts = [_lay_out_signed(_ENDS.get(level, "·"), self.item.text, style, width, rows)]
        bar = gutter(width, _style(level, palette))
        parts += [head(error, width, rows, palette.text, bar) for error in self.item.errors]
        self.foldable = self.expanded or any(part.hidden for part in parts)
        return [line for part in parts for line in join_rows(part, width, palette, bar)]

    @property
    def source(self) -> str:
        return "\n".join([self.item.text, *self.item.errors])


class BoundaryBlock(Block):
    item: BoundaryItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        text = " ".join(self.item.text[:1_000].split())
        label = f" {text} " if text else ""
        room = width - cell_len(label)
        if text and room < 4:
            return wrap([(text, palette.muted)], width)
        left, right = "─" * (room // 2), "─" * (room - room // 2)
        line = decoration([(left, palette.faint), (label, palette.muted), (right, palette.faint)], width)
        return [BlockLine(line.strip, text, len(left) + 1 if text else 0)]


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
            return join_rows(displays.markdown(self.item.text, view, MAX_ROWS), width, palette, before)
        found = displays.diff_rows(self.item.text, view, "")
        self.foldable = self.expanded or bool(found.hidden)
        return join_rows(found, width, palette, before)

    def _text(self, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        text = self.item.text.strip("\n")
        rows = MAX_ROWS if self.expanded else _OUTPUT_FIRST + _OUTPUT_LAST
        found = head(text, width, rows, palette.text, before, in_columns=True)
        self.foldable = self.expanded or bool(found.hidden)
        if self.expanded or not found.hidden:
            return join_rows(found, width, palette, before)
        first = head(text, width, _OUTPUT_FIRST, palette.text, before, in_columns=True)
        last = tail(text, width, _OUTPUT_LAST, palette.text, before, in_columns=True)
        hidden = max(1, first.hidden + last.hidden - text.count("\n") - 1)
        return [*join_rows(Rows(first.lines, hidden), width, palette, before), *last.lines]


_THINKING_ROWS = 6


class ThoughtsBlock(Block):
    item: ThinkingItem

    def __init__(self, item: ThinkingItem) -> None:
        super().__init__(item)
        self._grown: str | None = None
        """The whole text if it has grown; None if `item.text` is complete."""

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        self._grown = self.source + text

    def replace(self, item: Item) -> None:
        before = self.source
        super().replace(item)
        # After an interruption the item has no text: keep the shown one.
        self._grown = None if self.item.text else before

    @property
    def source(self) -> str:
        return self.item.text if self._grown is None else self._grown

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        seconds = self.item.seconds
        self.foldable = bool(self.source.strip())
        is_open = self.expanded or seconds is None
        sign = "  " if not self.foldable else "▾ " if is_open else "▸ "
        title = "Thinking…" if seconds is None else f"Thought for {format_elapsed(max(1, round(seconds)))}"
        lines = wrap([(title, palette.muted)], width, [(sign, palette.faint)] if width >= 8 else [])
        return [*lines, *self._body(width, palette)] if is_open else lines

    def _body(self, width: int, palette: Palette) -> list[BlockLine]:
        before, text = margin(width), self.source.strip("\n")
        if self.item.seconds is None and not self.expanded:
            # No "… more lines above" here: the header already shows that it is in progress.
            return tail(text, width, _THINKING_ROWS, palette.thinking, before).lines
        return join_rows(head(text, width, MAX_ROWS, palette.thinking, before), width, palette, before)


_PROMPT_ROWS = 12
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?=\s|\Z)")
_PICTURE = re.compile(r"\[(?:image|picture)\b", re.IGNORECASE)


class PromptBlock(Block):
    item: PromptItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        mark = [("❯ ", palette.user_mark)] if width >= 4 else []
        blank = [("  ", palette.user)] if mark else []
        rows = self._rows(width, palette, blank)
        self.foldable = self.expanded or bool(rows.hidden)
        lines = join_rows(rows, width, palette, blank)
        if lines:
            start = wrap(_first_line(lines[0].text, palette), width, mark, blank)[0]
            lines = [BlockLine(start.strip, lines[0].text, lines[0].indent, lines[0].joint), *lines[1:]]
        if self.item.images and not _PICTURE.search(self.item.text[:10_000]):
            count = counted(self.item.images, "picture")
            lines.append(decoration([*(blank if lines else mark), (f"+ {count}", palette.muted)], width))
        return [fill_row(line, width, palette.user) for line in lines or [decoration(mark, width)]]

    def _rows(self, width: int, palette: Palette, blank: Sequence[Run]) -> Rows:
        most = MAX_ROWS if self.expanded else _PROMPT_ROWS
        return head(self.item.text.strip("\n"), width, most, palette.user, blank)


def _first_line(text: str, palette: Palette) -> list[Run]:
    if command := _COMMAND.match(text):
        return [(command.group(), palette.user + palette.accent), (text[command.end() :], palette.user)]
    if text.startswith("!"):
        return [("!", palette.user + palette.running), (text[1:], palette.user + palette.code)]
    return [(text, palette.user)]


_SIGN = ("╭───╮", "│ ❯ │", "╰───╯")
_SIGN_CELLS = 7
_MIN_WIDTH = 36
_MAX_FACTS = 12
_DOT = " · "


class WelcomeBlock(Block):
    item: WelcomeItem

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        sign = _SIGN if width >= _MIN_WIDTH else ()
        blank: list[Run] = [(" " * _SIGN_CELLS, palette.faint)] if sign else []
        title: list[Run] = [("agentcli", palette.strong + palette.text)]
        title.append((f" {plain_line(self.item.version, 40)}", palette.muted))
        lines = wrap(title, width, blank, blank)
        for fact in self.item.lines[:_MAX_FACTS]:
            for row in _break_fact(plain_line(fact, 300), width - size(blank)):
                lines += wrap([(row, palette.muted)], width, blank, blank)
        lines += [decoration([], width)] * (len(sign) - len(lines))
        signed = [_with_sign(line, part, width, palette) for line, part in zip(lines, sign, strict=False)]
        return [*signed, *lines[len(sign) :]]

    @property
    def source(self) -> str:
        return "\n".join([f"agentcli {self.item.version}", *self.item.lines])


def _break_fact(fact: str, room: int) -> list[str]:
    """Break a fact of several parts between the parts, so that no row begins or ends with the dot."""
    rows: list[str] = []
    for part in fact.split(_DOT):
        if rows and cell_len(rows[-1] + _DOT + part) <= room:
            rows[-1] += _DOT + part
        else:
            rows.append(part)
    return rows


def _with_sign(line: BlockLine, part: str, width: int, palette: Palette) -> BlockLine:
    mark = palette.user_mark
    segments = [Segment(character, mark if character == "❯" else palette.faint) for character in part]
    rest = line.strip.crop(len(part), width)
    return BlockLine(Strip([*segments, *rest]), line.text, line.indent, line.joint)


def make_block(item: Item) -> Block:
    if isinstance(item, AnswerItem):
        from agentcli.tui.blocks.answer import AnswerBlock

        return AnswerBlock(item)
    if isinstance(item, AgentItem):
        from agentcli.tui.blocks.agent import AgentBlock

        return AgentBlock(item)
    return _BLOCKS[type(item)](item)


_BLOCKS: Mapping[type[Item], Callable[[Any], Block]] = {
    BoundaryItem: BoundaryBlock,
    EndItem: EndBlock,
    NoticeItem: NoticeBlock,
    OutputItem: OutputBlock,
    PromptItem: PromptBlock,
    ThinkingItem: ThoughtsBlock,
    ToolItem: ToolBlock,
    WelcomeItem: WelcomeBlock,
}
