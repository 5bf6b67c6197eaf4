"""The prompt editor: shows a `PromptBuffer` in wrapped rows and turns keys and the mouse into edits of it.

It has no access to sending, history and completion; the box around it has. Not based on Textual's text area, which
takes 8 ms per key in a draft of 2,000 characters and knows neither chips nor grapheme clusters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar
from unicodedata import category

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agentcli.core.text.plaintext import TAB
from agentcli.interactive.drafts import Draft
from agentcli.tui.glyphs import boundary_after, clusters, clusters_width, row_starts
from agentcli.tui.keys import PromptKey
from agentcli.tui.prompt.buffer import PromptBuffer, without_controls
from agentcli.tui.textual_internals import paint_now

if TYPE_CHECKING:
    from agentcli.tui.prompt.box import PromptBox

Row = tuple[int, int]
"""Range of the text in one row, without a line break."""
StyledRange = tuple[int, int, Style]

_MOVES: Mapping[str, Callable[[PromptBuffer], int]] = {
    f"cursor_{place}": attrgetter(place) for place in ("left", "right", "word_left", "word_right")
} | {"cursor_line_start": attrgetter("line_start"), "cursor_line_end": attrgetter("line_end")}
_CUTS: Mapping[str, Callable[[PromptBuffer], int]] = {
    "kill_word_left": attrgetter("word_left"),
    "kill_word_right": attrgetter("word_right"),
    "kill_line_start": lambda buffer: buffer.line_start if buffer.line_start != buffer.cursor else buffer.left,
    "kill_line_end": lambda buffer: buffer.line_end if buffer.line_end != buffer.cursor else buffer.right,
}
"""Where the actions of keys move or cut to."""
_EDITS: Mapping[str, Callable[[PromptBuffer], None]] = {
    "delete_left": lambda buffer: buffer.delete(buffer.left),
    "delete_right": lambda buffer: buffer.delete(buffer.right),
    "yank": PromptBuffer.yank,
    "undo": PromptBuffer.undo,
    "redo": PromptBuffer.redo,
    "select_all": lambda buffer: buffer.select(0, len(buffer.text)),
}

_rows_of_line = lru_cache(maxsize=2048)(row_starts)


class PromptEditor(ScrollView, can_focus=True, inherit_bindings=False):
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PromptEditor {
        width: 1fr;
        height: auto;
        min-height: 1;
        max-height: 34vh;
        background: transparent;
        color: $foreground;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        pointer: text;
        & .prompt-editor--chip { color: $accent; text-style: bold; }
        & .prompt-editor--placeholder { color: $text-disabled; }
        & .prompt-editor--cursor { text-style: reverse; }
        & .prompt-editor--selection {
            color: $input-selection-foreground;
            background: $input-selection-background;
        }
        &:ansi .prompt-editor--selection { text-style: reverse; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "prompt-editor--chip",
        "prompt-editor--placeholder",
        "prompt-editor--cursor",
        "prompt-editor--selection",
    }

    def __init__(self, owner: PromptBox, keys: Mapping[str, PromptKey]) -> None:
        super().__init__(id="prompt-editor")
        self._owner = owner
        self._keys = keys
        self.buffer = PromptBuffer(self._buffer_changed)
        self.hint = ""
        """Shown while the text is empty."""
        self._goal: int | None = None
        """Cell that Up and Down keep to across shorter rows."""
        self._rows: tuple[str, int, list[Row]] = ("", 0, [(0, 0)])
        """Rows, with the text and the width that they are for."""
        self._drags = False

    # ---------------------------------------------------------------------------------------------------- the text

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def draft(self) -> Draft:
        return self.buffer.draft

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    @property
    def line(self) -> tuple[str, int, bool]:
        """The line of the cursor, the cursor's column in it, and whether it is the first one."""
        start = self.buffer.line_start
        return self.text[start : self.buffer.line_end], self.buffer.cursor - start, start == 0

    def _buffer_changed(self, is_edit: bool) -> None:
        self._goal = None
        if not self.is_mounted:
            return
        is_last_key = not self.message_queue_size
        has_new_height = is_edit and self._fit_rows()
        if self.screen.selections:
            self.screen.clear_selection()
        self._show_cursor()
        self.refresh()
        if is_last_key and not has_new_height:
            paint_now(self.screen, (self,))  # the next frame would be up to 8 ms later
        self._owner.changed(text=is_edit)

    # --------------------------------------------------------------------------------------------------------- rows

    @property
    def rows(self) -> list[Row]:
        text, width = self.text, self._width
        if self._rows[:2] != (text, width):
            rows: list[Row] = []
            start = 0
            for line in text.split("\n"):
                starts = _rows_of_line(line, width)
                rows += [(start + first, start + last) for first, last in pairwise([*starts, len(line)])]
                start += len(line) + 1
            self._rows = text, width, rows
        return self._rows[2]

    @property
    def _width(self) -> int:
        return max(1, self.scrollable_content_region.width or self.app.size.width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return sum(len(_rows_of_line(line, max(1, width))) for line in self.text.split("\n"))

    def _fit_rows(self) -> bool:
        """Adapt the height to the text. Return whether it has changed."""
        if self.virtual_size.height == len(self.rows):
            return False
        self.virtual_size = Size(self._width, len(self.rows))
        self.refresh(layout=True)
        return True

    def on_resize(self) -> None:
        self._fit_rows()
        self._show_cursor()

    def _row_at(self, place: int) -> int:
        return bisect_right(self.rows, place, key=lambda row: row[0]) - 1

    @property
    def cursor_row(self) -> int:
        return self._row_at(self.buffer.cursor)

    @property
    def is_on_last_row(self) -> bool:
        return self.cursor_row == len(self.rows) - 1

    @property
    def cursor_offset(self) -> Offset:
        """Cell of the cursor in the wrapped text."""
        row = self.cursor_row
        return Offset(clusters_width(self.text[self.rows[row][0] : self.buffer.cursor]), row)

    @property
    def cursor_screen_offset(self) -> Offset:
        return self.content_region.offset + self.cursor_offset - self.scroll_offset

    def _place_at(self, x: int, y: int) -> int:
        """Place of the character in a cell of the wrapped text."""
        start, end = self.rows[min(max(0, y), len(self.rows) - 1)]
        found = [cluster for cluster in clusters(self.text[start:end]) if cluster.left <= max(0, x)]
        if not found or found[-1].right > x:
            return start + (found[-1].start if found else 0)
        # The place after the last character of a wrapped row belongs to the next row.
        is_wrapped = self.text[end : end + 1] not in ("", "\n")
        return start + found[-1].start if is_wrapped else end

    def _show_cursor(self) -> None:
        row, height = self.cursor_row, self.scrollable_content_region.height
        if height:
            top = min(max(self.scroll_offset.y, row - height + 1), row)
            self.scroll_to(y=top, animate=False, immediate=True)

    def move_to_end_of_first_row(self) -> None:
        self.buffer.move(self._place_at(self._width, 0))

    # --------------------------------------------------------------------------------------------------------- keys

    def on_key(self, event: events.Key) -> None:
        """Handle keys synchronously here, so that they take effect in the order in which they were typed."""
        key, character = self._keys.get(event.key), event.character
        if key is not None:
            event.prevent_default()
            if self._edit(key) or self._owner.act(key.action) or self._owner.interrupts(event):
                event.stop()
        elif self._owner.interrupts(event) or (character == "?" and self.is_empty and self._owner.act("help")):
            event.stop()
        elif character is not None and event.is_printable:
            event.stop()
            self.buffer.insert(character)
        elif character is not None and category(character[-1]) == "Cf":
            # Joiners and similar format characters are valid input, though Python does not consider them printable.
            event.stop()
            self.buffer.insert(without_controls(character))

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return character is not None and character.isprintable()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._owner.pasted(event.text)

    def _edit(self, key: PromptKey) -> bool:
        """Do what a key does with the text; False if its action is one of the box."""
        buffer, action = self.buffer, key.action
        if action in _MOVES:
            buffer.move(_MOVES[action](buffer), select=key.select)
        elif action in _CUTS:
            buffer.cut(_CUTS[action](buffer))
        elif action in ("cursor_up", "cursor_down"):
            self.move_rows(-1 if action == "cursor_up" else 1, select=key.select)
        elif action in _EDITS:
            _EDITS[action](buffer)
        elif action in ("copy", "cut"):
            if buffer.selected_text:
                self.app.copy_to_clipboard(buffer.selected_text)
            if action == "cut":
                buffer.delete(buffer.cursor)
        else:
            return False
        return True

    def move_rows(self, rows: int, *, select: bool = False) -> None:
        x, y = self.cursor_offset
        goal = x if self._goal is None else self._goal
        if y + rows < 0:
            place = 0
        elif y + rows >= len(self.rows):
            place = len(self.text)
        else:
            place = self._place_at(goal, y + rows)
        self.buffer.move(place, select=select)
        self._goal = goal

    # -------------------------------------------------------------------------------------------------------- mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self._drags = True
        self.capture_mouse()
        self._move_to_mouse(event, select=event.shift)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drags:
            event.stop()
            self._move_to_mouse(event, select=True)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self._drags = False
        self.release_mouse()

    def _move_to_mouse(self, event: events.MouseEvent, *, select: bool) -> None:
        place = event.get_content_offset_capture(self) + self.scroll_offset
        self.buffer.move(self._place_at(*place), select=select)

    # ----------------------------------------------------------------------------------------------------- painting

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh()

    def _look(self, name: str) -> Style:
        return self.get_component_rich_style(f"prompt-editor--{name}", partial=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render rows without the row cache: its keys cost more than the row that changes."""
        strips = [self.render_line(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, self.background_colors[1]) for strip in strips]
        width = self.outer_size.width
        strips = [strip.adjust_cell_length(width, self.rich_style) for strip in strips]
        return strips if crop.column_span == (0, width) else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        width, base = self._width, self.rich_style
        if self.is_empty:
            return self._empty_row(y, width, base)
        y += self.scroll_offset.y
        if y >= len(self.rows):
            return Strip.blank(width, base)
        return Strip(self._segments(*self.rows[y])).apply_style(base).adjust_cell_length(width, base)

    def _empty_row(self, y: int, width: int, base: Style) -> Strip:
        if y:
            return Strip.blank(width, base)
        hint, look = self.hint or " ", self._look("placeholder")
        segments = [Segment(hint[0], look + self._look("cursor") if self.has_focus else look), Segment(hint[1:], look)]
        if cell_len(hint) > width > 1:
            segments = [segments[0], *Strip([segments[1]]).crop(0, width - 2), Segment("…", look)]
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    def _segments(self, start: int, end: int) -> Iterator[Segment]:
        """The part of the text in one row. A row at the end of a line gets a trailing blank for the cursor."""
        text, styled = self.text, list(self._list_styled_ranges())
        is_last = text[end : end + 1] in ("", "\n")
        places = {at for first, last, _style in styled for at in (first, last) if start < at < end}
        cells = 0
        for begin, stop in pairwise([*sorted({start, *places, end}), *([end + 1] if is_last else [])]):
            styles = [style for first, last, style in styled if first <= begin < last]
            style = Style.combine(styles) if styles else None
            shown = text[begin:stop] if begin < end else " "
            while "\t" in shown:
                before, _tab, shown = shown.partition("\t")
                cells += clusters_width(before)
                blanks = TAB - cells % TAB
                cells += blanks
                yield Segment(before + " " * blanks, style)
            if shown:
                cells += clusters_width(shown)
                yield Segment(shown, style)

    def _list_styled_ranges(self) -> Iterator[StyledRange]:
        """Later ones override earlier ones."""
        for start, end in self.buffer.chips():
            yield start, end, self._look("chip")
        start, end = self.buffer.selection
        if start != end:
            yield start, end, self._look("selection")
        if self.has_focus:
            cursor = self.buffer.cursor
            at_end = self.text[cursor : cursor + 1] in ("", "\n")
            yield cursor, cursor + 1 if at_end else boundary_after(self.text, cursor), self._look("cursor")
