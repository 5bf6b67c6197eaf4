"""The whole conversation in one widget that paints rows, however long it gets.

Operations only mark what has changed; a frame (at most 30 a second, immediately after a pause) lays out the visible
blocks and paints the rows that differ. `items` holds the blocks, `stack` knows which rows are visible, `painting` makes
a row; this module shows them.

Two traps of Textual: setting `virtual_size` or `scroll_y` the usual way lays out the whole screen or repaints the whole
widget, so both are set without their watchers; and every mouse move calls `render_line`, so painting uses
`render_lines`, and `render_line` only identifies the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from time import perf_counter

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.model import Above, Clear, Item, Operation, PromptItem
from agentcli.tui.progress import AgentItem, AgentProgress
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import TranscriptItems
from agentcli.tui.transcript.search import Finder, parse_query
from agentcli.tui.transcript.stack import (
    Canvas,
    Ground,
    StackEntry,
    StyledCells,
    Viewport,
    copy_selection,
    place,
    select,
    span,
    word_at,
)

FRAME = 1 / 30
SLICE = 0.008
"""Seconds of searching between two frames, so that keys come first."""
WHEEL = 3


class Transcript(ScrollView):
    DEFAULT_CSS = """
    Transcript {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """

    @dataclass
    class FollowingChanged(Message):
        """The view started or stopped following the end. `unseen`: content has arrived below since it stopped."""

        following: bool
        unseen: bool

    @dataclass
    class FindChanged(Message):
        """The matches or the current match have changed. `position` counts from 1 at the top; 0: no current match."""

        count: int
        position: int
        done: bool
        has_wrapped: bool = False
        """Whether the last step wrapped around to the other end of the conversation."""

    def __init__(self, make_block: Callable[[Item], Block], palette: Palette) -> None:
        super().__init__()
        self.can_focus = False  # a click in the conversation must not take the focus from the prompt
        self.set_reactive(Widget.auto_links, False)
        self._items = TranscriptItems(make_block, palette)
        self._view = Viewport(self._items.stack, self._items.lines)
        self._finder = Finder(self._items, self._view)
        self._beat: Timer | None = None
        self.is_idle = False
        """Whether no frame is due."""
        self._dirty = True
        self._reported_following = (True, False)
        self._canvas = Canvas()
        self._base: Style | None = None
        self._thumb = (0, 0, 0)
        self._pressed: tuple[int, int] | None = None

    # ----------------------------------------------------------------------------------------------- the content

    def apply(self, operations: Iterable[Operation]) -> None:
        """Apply operations cheaply: changes are laid out and painted with the next frame."""
        self._change(operations)
        self._request_frame()

    def show_now(self, operations: Iterable[Operation]) -> None:
        """Apply operations and lay them out; the caller paints the screen. Does nothing when nothing has changed."""
        if operations := list(operations):
            self._change(operations)
            self._dirty = True
        if self._dirty:
            self.frame()

    def _change(self, operations: Iterable[Operation]) -> None:
        operations, from_end = list(operations), self._items.stack.height - self._view.top
        if self._items.apply(operations):
            self._view.unseen |= not self._view.following
        if any(isinstance(operation, Above) for operation in operations):
            self._view.find_place(from_end)
        if any(isinstance(operation, Clear) for operation in operations):
            self._view.follow()
            if self.is_attached and self.text_selection is not None:
                self.screen.clear_selection()

    def set_palette(self, palette: Palette) -> None:
        self._items.set_palette(palette)
        self._restyle()

    def tick(self, now: float) -> None:
        visible = dict.fromkeys(entry for entry, _row in self._canvas.rows)
        if self._items.tick((entry for entry in visible if entry.alive), now):
            self._request_frame()

    def toggle_details(self) -> bool:
        self._items.toggle_details()
        self._request_frame()
        return self._items.details

    def blocks(self) -> list[Block]:
        return [entry.block for entry in self._items.stack]

    def items(self) -> list[Item]:
        return [block.item for block in self.blocks()]

    def agents(self) -> list[AgentProgress]:
        """All sub-agents of the conversation, the oldest first."""
        agents = [item for item in self.items() if isinstance(item, AgentItem)]
        return [one for item in agents for one in item.progress.with_agents_inside()]

    def shown_rows(self) -> list[str]:
        return [strip.text for strip in self._canvas.strips]

    def source_text(self) -> str:
        return self._items.source_text()

    # ---------------------------------------------------------------------------------------------------- frames

    def on_mount(self) -> None:
        self._beat = self.set_interval(FRAME, self._on_beat)
        # The background is the screen's: a theme that changes it does not update the styles of this widget.
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._restyle())

    def _request_frame(self) -> None:
        self._dirty = True
        self._resume_beat()

    def _resume_beat(self) -> None:
        if self._beat is not None:
            self.is_idle = False
            self._beat.resume()

    def _on_beat(self) -> None:
        if self._dirty:
            self.frame()
        elif self.is_searching:
            self.search_on()
        elif self._beat is not None:
            self.is_idle = True
            self._beat.pause()  # fires at once when resumed

    def frame(self) -> None:
        """Update the screen. Called by the timer, and by tests directly."""
        self._dirty = False
        content = self._content
        if not content:
            return
        if content.width != self._items.width:
            self._items.set_width(content.width)
            if self.text_selection is not None:
                self.screen.clear_selection()  # its cells have moved
        self._settle()
        behind = {entry for entry, _row in self._canvas.rows if entry.block.behind}
        for entry in behind:
            self._items.make_stale(entry)
        if behind:
            self._request_frame()
            self.set_timer(0.001, self.frame)  # a message to itself would not let anything else run in between

    @property
    def _content(self) -> Size:
        return self.scrollable_content_region.size

    def _settle(self) -> None:
        """Place the view and paint the rows that look different."""
        content = self._content
        if not content or not self._items.width:
            return
        self._view.height = height = content.height
        top = self._view.settle()
        total = self._items.stack.height
        self.set_reactive(Widget.virtual_size, Size(content.width, total))
        if round(self.scroll_y) != top:  # keep fractions of a row from a drag beyond the edge
            self.set_scroll(None, top)
            self.set_reactive(Widget.scroll_target_y, top)
        self._show_rows(height)
        self._show_thumb(top, height, total)
        if self._reported_following != (self._view.sees_end, self._view.unseen):
            self._reported_following = (self._view.sees_end, self._view.unseen)
            self._post(self.FollowingChanged(*self._reported_following))
        if self._finder.is_searching:
            self._resume_beat()

    def _show_rows(self, height: int) -> None:
        selection, selected = self.text_selection, self._items.palette.selection
        found: dict[StackEntry, dict[int, list[StyledCells]]] = {}

        def highlights(entry: StackEntry, row: int, line: BlockLine) -> tuple[StyledCells, ...]:
            if entry not in found:
                found[entry] = self._finder.marks(entry)
            spans = tuple(found[entry].get(row, ()))
            if selection is not None and (cells := span(selection, entry, row)) is not None:
                spans += ((max(cells[0], line.indent), cells[1], selected),)
            return spans

        rows = self._view.rows()
        visible = {entry for entry, _row in rows}
        for entry in visible:
            self._items.lines(entry)
        runs = self._canvas.draw(rows, height, self._ground(), highlights)
        self._items.trim(visible)
        # Include the scrollbar: stopping at its edge would cost the compositor an empty strip per row.
        width = self.outer_size.width - self.gutter.left
        if runs:
            self.refresh(*(Region(0, start, width, count) for start, count in runs))

    def _ground(self) -> Ground:
        if self._base is None:
            _behind, _behind_text, background, text = self.colors
            self._base = Style.from_color(text.rich_color, background.rich_color)
        width, left = self._items.width, self.gutter.left
        return Ground(width, (left, max(0, self.outer_size.width - left - width)), self._base)

    def _show_thumb(self, top: int, height: int, total: int) -> None:
        """Paint the scrollbar only when it looks different: it costs as much as all rows."""
        bar = self.vertical_scrollbar
        bar.set_reactive(ScrollBar.window_virtual_size, total)
        bar.set_reactive(ScrollBar.window_size, height)
        bar.set_reactive(ScrollBar.position, float(top))
        # As Textual computes it, in eighths of a cell.
        cells = max(1, height / (total / height)) if total > height else 0
        thumb = (height, int((height - cells) * (top / max(1, total - height)) * 8), ceil(cells * 8))
        if thumb != self._thumb:
            self._thumb = thumb
            bar.refresh()

    # ------------------------------------------------------------------------------------------------- rendering

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows as last painted. Called whenever anything on the screen changes, so it computes nothing."""
        width, ground = self.outer_size.width, self._ground()
        strips = [*[ground.blank] * self.gutter.top, *self._canvas.strips][crop.y : crop.bottom]
        strips.extend([ground.blank] * (crop.height - len(strips)))
        strips = [strip.adjust_cell_length(width, ground.base) for strip in strips]
        filters = self.get_line_filters()
        if filters:
            background = self.background_colors[1]
            for line_filter in filters:
                strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """Identify the row for the mouse: one character per cell, so that offsets count cells."""
        width = max(1, self._content.width)
        rows = self._canvas.rows
        row = rows[y] if 0 <= y < len(rows) else None
        if row is None:
            last = self._items.stack.last
            if last is None:
                return Strip.blank(width)
            row = last, last.rows
        return Strip([Segment(" " * width, Style.from_meta({"offset": (0, place(*row))}))], width)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._restyle()

    def _restyle(self) -> None:
        self._base = None
        self._request_frame()

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        content, width = self._content, self._items.width
        if not width:
            self.frame()
        elif content.width == width and content.height != len(self._canvas.strips):
            self._settle()  # before the screen is painted; a new width waits for a frame, which merges resizes
        return changed

    def validate_scroll_y(self, value: float) -> float:
        """Leave clamping after a resize to `_settle`: Textual would clamp to the old rows, as if the user had
        scrolled."""
        return value if value == self.scroll_y else super().validate_scroll_y(value)

    def on_resize(self) -> None:
        self._request_frame()

    # ------------------------------------------------------------------------------------------------- scrolling

    @property
    def following(self) -> bool:
        return self._view.following

    def follow(self) -> None:
        self._view.follow()
        self._settle()

    def scroll_rows(self, rows: int) -> None:
        if self._items.width:
            self._view.scroll(rows)
            self._settle()
            self._extend_selection()

    def page_up(self) -> None:
        self.scroll_rows(-max(1, self._content.height - 2))

    def page_down(self) -> None:
        self.scroll_rows(max(1, self._content.height - 2))

    def home(self) -> None:
        if self._items.width:
            self._view.look_at_row(0)
            self._settle()

    def show_prompt(self, prompt_id: str, text: str) -> bool:
        """Scroll to a prompt, by its id or, for one that was sent since the conversation was opened, by its text, which
        may be followed by that of queued prompts. False if it is not there."""
        entry = self._items.stack.get(prompt_id)
        if entry is None:
            found = ((one, one.block.item) for one in reversed(self._items.stack.entries))
            prompts = ((one, item.text) for one, item in found if isinstance(item, PromptItem))
            entry = next((one for one, prompt in prompts if f"{text}\n".startswith(f"{prompt.strip()}\n")), None)
        if entry is None or not self._items.width:
            return False
        self._view.look_at(entry, 0)
        self._view.hold(True)  # notices that follow would scroll it away
        self._settle()
        return True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Handle changes by the scrollbar or by a selection dragged beyond the edge."""
        if round(old_value) != round(new_value) and self._items.width:
            self._view.look_at_row(round(new_value))
            self._settle()
            self._extend_selection()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop().prevent_default()
        self.scroll_rows(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop().prevent_default()
        self.scroll_rows(-WHEEL)

    def on_scroll_to(self, message: ScrollTo) -> None:
        message.stop().prevent_default()
        if message.y is not None:
            self.scroll_y = message.y

    def on_scroll_up(self, event: ScrollUp) -> None:
        event.stop().prevent_default()
        self.page_up()

    def on_scroll_down(self, event: ScrollDown) -> None:
        event.stop().prevent_default()
        self.page_down()

    # ----------------------------------------------------------------------------------- selection and the mouse

    @property
    def allow_select(self) -> bool:
        return True

    def selection_updated(self, selection: Selection | None) -> None:
        """Stop following while something is selected."""
        self._view.hold(selection is not None)
        self._settle()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = copy_selection(selection, self._items.stack, self._items.lines)
        return (text, "\n") if text else None

    def _extend_selection(self) -> None:
        """Extend a selection in progress to the content now under the mouse; Textual waits until the mouse moves."""
        if self.text_selection is not None:
            x, y = self.app.mouse_position
            self.app.post_message(events.MouseMove(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y))

    async def on_mouse_down(self, event: events.MouseDown) -> None:
        dismisses = self.text_selection is not None
        self._pressed = None if dismisses else (event.screen_x, event.screen_y)

    async def on_click(self, event: events.Click) -> None:
        event.prevent_default()
        await self.broker_event("click", event)
        offset, rows = event.get_content_offset(self), self._canvas.rows
        if offset is None or not 0 <= offset.y < len(rows):
            return
        row = rows[offset.y]
        if row[1] < 0 or not row[0].alive:
            return
        if event.chain == 2:
            self._select_word(*row, offset.x)
        elif event.chain == 3:
            self.screen.selections = {self: select(*row, 0, self._content.width)}
        elif self._pressed == (event.screen_x, event.screen_y):
            self._toggle(*row)

    def _select_word(self, entry: StackEntry, row: int, cell: int) -> None:
        line = self._items.lines(entry)[row]
        cells = word_at(line.strip.text, cell)
        if cells is not None:
            self.screen.selections = {self: select(entry, row, *cells)}

    def _toggle(self, entry: StackEntry, row: int) -> None:
        """Open or close what is at this row of a block, and keep the block's first row under the mouse."""
        fold = entry.fold
        is_fold = fold is not None and fold.entries[0] is entry and row == 0
        if is_fold or entry.block.foldable or entry.block.expanded:
            if fold is not None and is_fold:
                self._items.toggle_fold(fold)
            else:
                self._items.expand(entry, not entry.block.expanded)
            self._view.look_at_top_of(entry)
            self._view.stay()
            self._request_frame()

    # ---------------------------------------------------------------------------------------------------- search

    def find(self, text: str) -> int:
        """Search for a text, nearest above the end of the view first. Return the number of matches so far. In a long
        conversation the rest is searched in slices, and `FindChanged` reports the progress."""
        query = parse_query(text)
        if query is None or not self._items.width:
            self.clear_find()
            return 0
        self._finder.start(query)
        self.search_on()
        self._request_frame()
        return self._finder.count

    @property
    def match_count(self) -> int:
        return self._finder.count

    @property
    def is_searching(self) -> bool:
        return self._finder.is_searching

    def search_on(self) -> None:
        """Search the next slice of the conversation."""
        self._finder.search(perf_counter() + SLICE)
        self._report_found()

    def find_step(self, direction: int, *, keep: bool = False) -> None:
        """Go to another match. `keep`: a block that was opened for it stays open when the search ends."""
        self._finder.step(direction)
        self._finder.keeps_current |= keep
        self._report_found()

    def clear_find(self) -> None:
        """End the search and fold the blocks that it opened."""
        self._finder.stop()
        self._request_frame()

    def _report_found(self) -> None:
        self._settle()
        finder = self._finder
        self._post(self.FindChanged(finder.count, finder.position, not finder.is_searching, finder.has_wrapped))

    def _post(self, message: Message) -> None:
        """Post a message to all ancestors, including its cause, where Textual would stop it."""
        self.post_message(message.set_sender(self))
