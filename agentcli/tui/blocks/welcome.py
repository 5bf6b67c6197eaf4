"""Block at the start of a new session: product name, active settings and hints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from agentcli.core.text.plaintext import plain_line
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.rows import decoration, size
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.model import WelcomeItem
from agentcli.tui.theme.palette import Palette

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
            for row in _packed(plain_line(fact, 300), width - size(blank)):
                lines += wrap([(row, palette.muted)], width, blank, blank)
        lines += [decoration([], width)] * (len(sign) - len(lines))
        signed = [_with_sign(line, part, width, palette) for line, part in zip(lines, sign, strict=False)]
        return [*signed, *lines[len(sign) :]]

    @property
    def source(self) -> str:
        return "\n".join([f"agentcli {self.item.version}", *self.item.lines])


def _packed(fact: str, room: int) -> list[str]:
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
