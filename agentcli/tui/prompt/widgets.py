"""Parts of the prompt box around the editor: rules, mark, queued prompts, and the menu above it.

The menu overlays the transcript, so that nothing moves when it opens. The prompt box decides what a choice does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from unicodedata import category

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line, visible_text

MAX_ROWS = 8
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
_GAP = 3
"""Columns between label and detail."""
_MIN_GAP = 2
"""The same behind a label that is too long for its column."""


@frozen
class PopupRow:
    label: str
    hint: str = ""
    """Shown right after the label, muted: the arguments of a command."""
    detail: str = ""
    """Shown in the second column, muted: a description."""
    positions: tuple[int, ...] = ()
    """Indices of the label's characters that match the typed text."""
    is_dimmed: bool = False
    """Whether the whole row is muted, because it cannot be used now."""


def shown(text: str) -> str:
    """A text as one line of visible characters; each replaces one character, so that positions stay valid."""
    text = visible_text(text.replace("\n", "⏎").replace("\t", " "))
    if text.isascii():
        return text
    return _INVISIBLE.sub("\ufffd", "".join("\ufffd" if category(char) == "Cn" else char for char in text))


class Popup(Widget):
    DEFAULT_CSS = """
    Popup {
        overlay: screen;
        display: none;
        width: 100%;
        height: auto;
        background: $surface;
        color: $foreground;
        & .popup--rule { color: $border; }
        & .popup--title { color: $text-muted; }
        & .popup--match { color: $accent; text-style: bold underline; }
        & .popup--detail { color: $text-muted; }
        & .popup--chosen { background: $block-cursor-background; text-style: bold; }
        &.-open { display: block; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "popup--rule",
        "popup--title",
        "popup--match",
        "popup--detail",
        "popup--chosen",
    }

    @dataclass
    class Clicked(Message):
        index: int

    def __init__(self) -> None:
        super().__init__(id="prompt-popup")
        self.can_focus = False
        self._rows: tuple[PopupRow, ...] = ()
        self._title = ""
        self._note = ""
        self._first = 0
        """Index of the topmost visible row."""
        self._room = MAX_ROWS
        """Number of rows that fit."""
        self._lines = 0
        """Its height, with rule and note."""
        self.chosen = -1
        """Index of the chosen row; -1: none."""

    @property
    def is_open(self) -> bool:
        return bool(self._rows or self._note)

    @property
    def count(self) -> int:
        return len(self._rows)

    def open(self, rows: Sequence[PopupRow], *, title: str, note: str, chosen: int, room: int) -> None:
        """Show these rows in at most `room` lines; `note` is a line above them."""
        self._rows = tuple(rows)
        self._title, self._note = shown(title), shown(note)
        self.chosen = min(chosen, len(self._rows) - 1)
        self._first = 0
        self.fit(room)

    def fit(self, room: int) -> None:
        """Adapt an open menu to another number of free lines."""
        if not self.is_open:
            return
        self._room = max(1, min(MAX_ROWS, room - 1 - bool(self._note)))
        self._scroll_to_chosen()
        lines = 1 + bool(self._note) + min(self._room, len(self._rows))
        if lines != self._lines or not self.has_class("-open"):
            # Only if the height changes: this lays out the whole screen again.
            self._lines = lines
            self.styles.height = lines
            self.styles.offset = (0, -lines)
            self.add_class("-open")
        self.refresh()

    def close(self) -> None:
        if self.is_open:
            self._rows = ()
            self._note = ""
            self._lines = 0
            self.remove_class("-open")

    def move(self, step: int) -> None:
        """Choose another row, from the last one on to the first again."""
        if self._rows:
            self.chosen = (
                (self.chosen + step) % len(self._rows) if self.chosen >= 0 or step > 0 else len(self._rows) - 1
            )
            self._scroll_to_chosen()
            self.refresh()

    def _scroll_to_chosen(self) -> None:
        at = max(0, self.chosen)
        self._first = max(min(self._first, at), at - self._room + 1, 0)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        index = event.y - 1 - bool(self._note) + self._first
        if event.y > bool(self._note) and index < len(self._rows):
            self.post_message(self.Clicked(index))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-1)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"popup--{name}", partial=True)

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        if y == 0:
            segments = self._rule(width)
        elif self._note and y == 1:
            segments = [Segment("  "), Segment(self._note, self._style("detail"))]
        else:
            index = y - 1 - bool(self._note) + self._first
            if index >= len(self._rows):
                return Strip.blank(width, base)
            segments = self._row(self._rows[index], width)
            if index == self.chosen:
                base += self._style("chosen")
                segments[0] = Segment("❯ ")
        return _cut(segments, width, base)

    def _rule(self, width: int) -> list[Segment]:
        rule = self._style("rule")
        count = f" {self.chosen + 1}/{len(self._rows)} " if len(self._rows) > self._room else ""
        title = f" {self._title} " if self._title else ""
        if cell_len(title) + len(count) + 6 > width:
            title = ""
        line = "─" * max(0, width - 4 - cell_len(title) - len(count))
        muted = self._style("title")
        return [
            Segment("──", rule),
            Segment(title, muted),
            Segment(line, rule),
            Segment(count, muted),
            Segment("──", rule),
        ]

    def _row(self, row: PopupRow, width: int) -> list[Segment]:
        label, hint, detail = shown(row.label), shown(row.hint), shown(row.detail)
        muted = [Segment(label, self._style("detail"))] if row.is_dimmed else None
        segments = [Segment("  "), *(muted or self._marked(label, row.positions))]
        if hint:
            segments.append(Segment(f" {hint}", self._style("detail")))
        used = 2 + cell_len(label) + (1 + cell_len(hint) if hint else 0)
        column = self._detail_column(width)
        if detail and column + 12 <= width:
            gap = " " * max(_MIN_GAP, column - used)
            segments += (Segment(gap), Segment(detail, self._style("detail")))
        return segments

    def _detail_column(self, width: int) -> int:
        """The column where details begin: after the longest visible label, but not too far to the right."""
        seen = self._rows[self._first : self._first + self._room]
        longest = max(
            (2 + cell_len(row.label) + (1 + cell_len(row.hint) if row.hint else 0) for row in seen), default=0
        )
        return min(longest + _GAP, width * 6 // 10)

    def _marked(self, label: str, positions: tuple[int, ...]) -> list[Segment]:
        match = self._style("match")
        segments: list[Segment] = []
        at = 0
        for position in positions:
            if at <= position < len(label):
                segments += (Segment(label[at:position]), Segment(label[position], match))
                at = position + 1
        return [segment for segment in (*segments, Segment(label[at:])) if segment.text]


def _cut(segments: list[Segment], width: int, base: Style) -> Strip:
    strip = Strip(segments)
    if strip.cell_length > width > 1:
        strip = Strip([*strip.crop(0, width - 1), Segment("…")])
    return strip.apply_style(base).adjust_cell_length(width, base)


MAX_QUEUED = 3
SMALL_SCREEN = 14
"""Screen height in rows below which the box has no rule at its bottom."""


class PromptRule(Widget):
    """A rule with a label at its right end, and a hint at its left end while the transcript goes on below. The CSS
    class sets the label's colour; its text has the meaning."""

    DEFAULT_CSS = """
    PromptRule {
        width: 100%;
        height: auto;
        color: $border;
        & .prompt-rule--label { color: $text-muted; }
        & .prompt-rule--below { color: $foreground; text-style: bold; }
        &.accent .prompt-rule--label, &.plan .prompt-rule--label { color: $accent; text-style: bold; }
        &.success .prompt-rule--label, &.acceptEdits .prompt-rule--label, &.auto .prompt-rule--label {
            color: $success; text-style: bold;
        }
        &.warning .prompt-rule--label, &.dontAsk .prompt-rule--label { color: $warning; text-style: bold; }
        &.error .prompt-rule--label, &.bypassPermissions .prompt-rule--label { color: $error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prompt-rule--label", "prompt-rule--below"}

    def __init__(self, *, only_on_tall_screens: bool = False) -> None:
        super().__init__()
        self._only_on_tall_screens = only_on_tall_screens
        self._label = ""
        self.below = ""

    def set_below(self, hint: str) -> None:
        self.below = hint
        self.refresh()

    def set_label(self, text: str, style_class: str) -> None:
        if self.classes != {style_class} - {""}:
            self.set_classes(style_class)
        self._label = shown(plain_line(text))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 0 if self._only_on_tall_screens and viewport.height < SMALL_SCREEN else 1

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        below = f" {self.below} " if self.below and width > 12 else ""
        label = f" {self._label} " if self._label else ""
        room = width - len(below)
        if cell_len(label) > room - 5:
            label = set_cell_size(label, room - 7) + "… " if room > 12 else ""
        start, end = "──" if below else "", "──" if label else ""
        line = "─" * (room - len(start) - cell_len(label) - len(end))
        hint = Segment(below, self.get_component_rich_style("prompt-rule--below", partial=True))
        named = Segment(label, self.get_component_rich_style("prompt-rule--label", partial=True))
        return Strip([Segment(start), hint, Segment(line), named, Segment(end)], width).apply_style(base)


class PromptMark(Static):
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

    def __init__(self) -> None:
        super().__init__("❯ ", markup=False)
        self._kind = "prompt"

    def set_kind(self, kind: str) -> None:
        if kind != self._kind:
            self.set_classes(kind)
            if "search" in (kind, self._kind):
                self.update("search ❯ " if kind == "search" else "❯ ")
            self._kind = kind


class QueuedRows(Widget):
    DEFAULT_CSS = """
    QueuedRows { width: 100%; height: auto; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, ...] = ()

    def set_queued(self, texts: Sequence[str]) -> None:
        if tuple(texts) != self._texts:
            self._texts = tuple(texts)
            self.refresh(layout=True)

    @property
    def count(self) -> int:
        return len(self._texts)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # A small screen gets a single row with the number of queued prompts.
        return min(self.count, 1 if viewport.height < SMALL_SCREEN else MAX_QUEUED)

    def render_line(self, y: int) -> Strip:
        is_last, more = y + 1 == self.size.height, self.count - y
        text = f"  ⋯ queued: {shown(plain_line(self._texts[y], 400))}" if more > 0 else ""
        if is_last and more > 1:
            text = f"  … {more} more, Up edits them" if y else f"  … {more} queued, Up edits them"
        return _cut([Segment(text)], self.size.width, self.rich_style)
