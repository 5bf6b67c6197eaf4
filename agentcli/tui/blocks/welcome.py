"""The first thing in a new session: a name, what is in force, what to try."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.plaintext import plain_line
from agentcli.tui.blocks.base import Block, Line
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.model import WelcomeItem
from agentcli.tui.palette import Palette

_SIGN = ("╭───╮", "│ ❯ │", "╰───╯")
_NARROWEST = 36
_MOST_FACTS = 12


class WelcomeBlock(Block):
    item: WelcomeItem

    def layout(self, width: int, palette: Palette) -> Sequence[Line]:
        title: list[Run] = [
            ("agentcli", palette.strong + palette.text),
            (f" {plain_line(self.item.version, 40)}", palette.muted),
        ]
        facts = self.item.lines[:_MOST_FACTS]
        rows = [title, *([(plain_line(fact, 300), palette.muted)] for fact in facts)]
        sign = _SIGN if width >= _NARROWEST else ()
        blank: list[Run] = [("       ", palette.faint)] if sign else []
        lines: list[Line] = []
        for row in rows:
            lines += wrap(row, width, blank, blank)
        lines += [Line(line.strip, "", line.indent, "") for line in wrap([], width) * (len(sign) - len(lines))]
        return [
            *(_signed(line, part, width, palette) for line, part in zip(lines, sign, strict=False)),
            *lines[len(sign) :],
        ]

    @property
    def source(self) -> str:
        return "\n".join([f"agentcli {self.item.version}", *self.item.lines])


def _signed(line: Line, part: str, width: int, palette: Palette) -> Line:
    """The line with its part of the sign in the place that was left for it."""
    from rich.segment import Segment
    from textual.strip import Strip

    mark = part.find("❯")
    pieces = [(part, palette.faint)] if mark < 0 else [(part[:mark], palette.faint), ("❯", palette.user_mark)]
    pieces += [(part[mark + 1 :], palette.faint)] if mark >= 0 else []
    rest = line.strip.crop(len(part), width)
    return Line(Strip([*(Segment(*piece) for piece in pieces), *rest]), line.text, line.indent, line.joint)
