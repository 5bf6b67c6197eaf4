"""List widget of a picker. Uses the line API, so that ten thousand rows cost no more than the visible ones.

Owns the cursor and the columns. It takes no focus: the screen around it receives the keys and calls its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agentcli.tui.screens.rows import FoundEntry, Row, RowEntry
from agentcli.tui.screens.text import Runs, cut, marked, padded, painted, safe
from agentcli.tui.textual_internals import repaint_soon
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")

_GAP = "  "
_BEFORE = 3
"""Cells before a row: margin, cursor sign and a blank."""
_BOLD = Style(bold=True)
_FOUND = Style(bold=True, underline=True)


class RowList(ScrollView, Generic[T], can_focus=False):
    DEFAULT_CSS = """
    RowList { width: 1fr; height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    class Chosen(Message):
        """A click on the row that already had the cursor."""

    def __init__(self, palette: Palette, moved: Callable[[], None], id: str) -> None:
        """`moved` is called directly, not by a message: the next key may already apply to the row under the cursor."""
        super().__init__(id=id)
        self._moved = moved
        self.palette = palette
        self.empty = ""
        self._found: list[FoundEntry[T]] = []
        self._lines: list[int | str] = []
        self._line_of: list[int] = []
        self._cursor = 0
        self._mark_width = 0
        self._label_width = 0
        self._most_label = 0
        self._detail_width = 0

    def measure(self, entries: Sequence[RowEntry[T]], most: int) -> None:
        """Compute the columns from all rows, so that filtering does not move them. `most`: maximum label width."""
        self._most_label = most
        self._mark_width = max((cell_len(entry.row.mark) for entry in entries), default=0)
        self._label_width = max((cell_len(entry.label) for entry in entries), default=0)
        self._detail_width = max((cell_len(entry.detail) for entry in entries if not entry.row.disabled), default=0)
        if not self._detail_width:  # the reasons of disabled rows take the remaining room, but need some
            self._detail_width = min(20, max((cell_len(entry.detail) for entry in entries), default=0))

    def show(self, found: Sequence[FoundEntry[T]], cursor: int, grouped: bool) -> None:
        self._found = list(found)
        self._lines, self._line_of = [], []
        group = ""
        for number, each in enumerate(self._found):
            if grouped and each.entry.row.group != group:
                group = each.entry.row.group
                self._lines.append(safe(group))
            self._line_of.append(len(self._lines))
            self._lines.append(number)
        self._cursor = max(0, min(cursor, len(self._found) - 1))
        self.virtual_size = Size(0, len(self._lines))
        repaint_soon(self)
        self._reveal()

    @property
    def row_count(self) -> int:
        return len(self._found)

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def marked_cell(self) -> Offset:
        """Screen cell of the sign before the row under the cursor."""
        line = self._line_of[self._cursor] - self.scroll_offset.y if self._found else 0
        return self.region.offset + Offset(_BEFORE - 2, line)

    @property
    def row(self) -> Row[T] | None:
        return self._found[self._cursor].entry.row if self._found else None

    @property
    def entry(self) -> RowEntry[T] | None:
        return self._found[self._cursor].entry if self._found else None

    def columns(self, width: int) -> tuple[int, int]:
        """Widths of the label and detail columns. A column that needs little gets it in full; the other one is cut."""
        room = max(1, width - _BEFORE - 1 - (self._mark_width + 1 if self._mark_width else 0))
        label, detail = min(self._label_width, self._most_label), self._detail_width
        if not detail or label + len(_GAP) + detail <= room:
            return min(label, room), detail
        room -= len(_GAP)
        if detail <= room * 0.6:
            return room - detail, detail
        if label > room * 0.65:
            label = max(int(room * 0.5), 1)
        return label, max(0, room - label)

    def is_cut(self, width: int) -> bool:
        label, detail = self.columns(width)
        return label < self._label_width or detail < self._detail_width

    def hidden_text(self, width: int) -> str:
        entry = self.entry
        if entry is None:
            return ""
        label, detail = self.columns(width)
        if cell_len(entry.label) > label:
            return f"{entry.label}  {' '.join(entry.detail.split())}"
        cut_away = cell_len(entry.detail) > max(detail, width - self._before_detail(label) - 1)
        return " ".join(entry.detail.split()) if cut_away else ""

    def _before_detail(self, label: int) -> int:
        return _BEFORE + (self._mark_width + 1 if self._mark_width else 0) + label + len(_GAP)

    def move(self, steps: int) -> None:
        """Move by `steps` rows; a single step beyond an end wraps around."""
        if not self._found:
            return
        last = len(self._found) - 1
        if abs(steps) == 1 and not 0 <= self._cursor + steps <= last:
            self.move_to(0 if steps > 0 else last)
        else:
            self.move_to(self._cursor + steps)

    def move_to(self, place: int) -> None:
        place = max(0, min(place, len(self._found) - 1))
        if place == self._cursor:
            self._reveal()
            return
        self._cursor = place
        self._reveal()
        repaint_soon(self)
        self._moved()

    def move_page(self, pages: int) -> None:
        self.move_to(self._cursor + pages * max(1, self.size.height - 1))

    def _reveal(self) -> None:
        if not self._found or not self.size.height:
            return
        line = self._line_of[self._cursor]
        # The group name belongs to its first row: scrolling up to the row shows it too.
        first = line - 1 if line and isinstance(self._lines[line - 1], str) and self.size.height > 1 else line
        top = self.scroll_offset.y
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif line >= top + self.size.height:
            self.scroll_to(y=line - self.size.height + 1, animate=False)

    def on_resize(self) -> None:
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        line = event.y + self.scroll_offset.y
        number = self._lines[line] if 0 <= line < len(self._lines) else ""
        if not isinstance(number, int):
            return
        if number == self._cursor:
            self.post_message(self.Chosen())
        else:
            self.move_to(number)

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        line = y + self.scroll_offset.y
        if line >= len(self._lines):
            said: Runs = [("   " + self.empty, self.palette.muted)] if not self._lines and y == 0 else []
            return painted(said, width, base)
        number = self._lines[line]
        if isinstance(number, str):
            return painted([(" " + number, self.palette.muted + _BOLD)], width, base)
        chosen = number == self._cursor
        runs = self._runs(self._found[number], width, chosen)
        if not chosen:
            return painted(runs, width, base)
        if self.palette.selection.reverse:  # reversed colours would look like patches of background
            runs = [(text, style.without_color) for text, style in runs]
        return painted(runs, width, base + self.palette.selection)

    def _runs(self, found: FoundEntry[T], width: int, chosen: bool) -> Runs:
        palette, entry = self.palette, found.entry
        label_width, detail_width = self.columns(width)
        runs: Runs = [(" ❯ " if chosen else "   ", palette.accent + _BOLD)]
        if self._mark_width:
            runs.append((padded(safe(entry.row.mark), self._mark_width) + " ", palette.accent))
        style = palette.muted if entry.row.disabled else palette.text + _BOLD if chosen else palette.text
        runs += marked(padded(entry.label, label_width), found.label_places, style, _FOUND + _hue(palette))
        if entry.detail and detail_width > 0:
            # A reason may be longer than the other details: it gets the rest of the row.
            room = max(detail_width, width - self._before_detail(label_width) - 1)
            text = cut(entry.detail, room)
            runs.append((_GAP, palette.muted))
            runs += marked(text, found.detail_places, palette.muted, _FOUND + _hue(palette))
        return runs


def _hue(palette: Palette) -> Style:
    """Colour of matched letters: the accent's colour, without its other attributes."""
    return Style(color=palette.accent.color)
