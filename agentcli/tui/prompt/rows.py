"""Small rows of the prompt box: the rules around it, the mark before the text, and the queued prompts above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from agentcli.core.text.plaintext import plain_line
from agentcli.tui.prompt.popup import shown

MAX_QUEUED = 3
SMALL_SCREEN = 14
"""Screen height in rows below which the box has no rule at its bottom."""


class PromptRule(Widget):
    """A rule with a label at its right end. The CSS class sets the label's colour; its text has the meaning."""

    DEFAULT_CSS = """
    PromptRule {
        width: 100%;
        height: auto;
        color: $border;
        & .prompt-rule--label { color: $text-muted; }
        &.accent .prompt-rule--label, &.plan .prompt-rule--label { color: $accent; text-style: bold; }
        &.success .prompt-rule--label, &.acceptEdits .prompt-rule--label, &.auto .prompt-rule--label {
            color: $success; text-style: bold;
        }
        &.warning .prompt-rule--label, &.dontAsk .prompt-rule--label { color: $warning; text-style: bold; }
        &.error .prompt-rule--label, &.bypassPermissions .prompt-rule--label { color: $error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prompt-rule--label"}

    def __init__(self, *, only_on_tall_screens: bool = False) -> None:
        super().__init__()
        self._only_on_tall_screens = only_on_tall_screens
        self._label = ""

    def set_label(self, text: str, style_class: str) -> None:
        if self.classes != {style_class} - {""}:
            self.set_classes(style_class)
        self._label = shown(plain_line(text))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 0 if self._only_on_tall_screens and viewport.height < SMALL_SCREEN else 1

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        label = f" {self._label} " if self._label else ""
        if cell_len(label) > width - 3:
            label = set_cell_size(label, max(0, width - 5)) + "… " if width > 12 else ""
        end = "──" if label else ""
        line = "─" * (width - cell_len(label) - len(end))
        look = self.get_component_rich_style("prompt-rule--label", partial=True)
        return Strip([Segment(line), Segment(label, look), Segment(end)], width).apply_style(base)


class PromptMark(Widget):
    """Mark before the text: `❯`, coloured by the kind of input; `search ❯` while searching the history."""

    DEFAULT_CSS = """
    PromptMark {
        width: auto;
        height: 1;
        color: $accent;
        text-style: bold;
        &.shell { color: $warning; }
        &.command { color: $success; }
        &.search { color: $text-muted; }
    }
    """
    _MARKS: ClassVar[dict[str, str]] = {"prompt": "❯ ", "command": "❯ ", "shell": "❯ ", "search": "search ❯ "}

    def __init__(self) -> None:
        super().__init__()
        self._kind = "prompt"

    def set_kind(self, kind: str) -> None:
        if kind != self._kind:
            self.set_classes(kind)
            moves = len(self._MARKS[kind]) != len(self._MARKS[self._kind])
            self._kind = kind
            self.refresh(layout=moves)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return len(self._MARKS[self._kind])

    def render_line(self, y: int) -> Strip:
        mark = self._MARKS[self._kind]
        return Strip([Segment(mark)], len(mark)).apply_style(self.rich_style)


class QueuedRows(Widget):
    DEFAULT_CSS = """
    QueuedRows { width: 100%; height: auto; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, ...] = ()

    def set_queued(self, texts: Sequence[str]) -> None:
        if tuple(texts) != self._texts:
            before = len(self._lines(80))
            self._texts = tuple(texts)
            self.refresh(layout=len(self._lines(80)) != before)

    @property
    def count(self) -> int:
        return len(self._texts)

    def _lines(self, width: int) -> list[str]:
        whole = MAX_QUEUED if len(self._texts) <= MAX_QUEUED else MAX_QUEUED - 1
        lines = [f"  ⋯ queued: {shown(plain_line(text, 400))}" for text in self._texts[:whole]]
        if len(self._texts) > whole:
            lines.append(f"  … {len(self._texts) - whole} more, Up edits them")
        return [line if cell_len(line) <= width else set_cell_size(line, width - 1) + "…" for line in lines]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # A small screen gets a single row with the number of queued prompts.
        return min(len(self._lines(80)), 1 if viewport.height < SMALL_SCREEN else MAX_QUEUED)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = self._lines(max(2, width))
        if self.size.height == 1 < len(lines):
            lines = [f"  … {len(self._texts)} queued, Up edits them"[:width]]
        text = lines[y] if y < len(lines) else ""
        return Strip([Segment(text)]).apply_style(self.rich_style).adjust_cell_length(width, self.rich_style)
