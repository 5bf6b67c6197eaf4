"""The prompt editor: Textual's text area with chips, grapheme-wise movement, kill and yank, and its own row painting.

It has no access to sending, history and completion; the box around it has. Rows are painted here because the text area
splits the whole line for each row (8 ms per key in a draft of 2,000 characters) and does not support chips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, ClassVar
from unicodedata import category

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.document._document import EditResult, Location, Selection
from textual.document._document_navigator import DocumentNavigator
from textual.document._edit import Edit
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from agentcli.core.messages import clean_text
from agentcli.core.text.plaintext import TAB
from agentcli.interactive.drafts.draft import CHIP, Draft, ImagePiece, PastedPiece, Piece, image_chip, pasted_chip
from agentcli.tui.busy_pumps import BusyPump
from agentcli.tui.prompt.graphemes import boundary_after, boundary_before, boundary_near
from agentcli.tui.prompt.keys import PromptKey
from agentcli.tui.prompt.paste import is_large, without_controls
from agentcli.tui.prompt.row_painting import StyledColumns, painted
from agentcli.tui.prompt.wrapping import WrappedPrompt
from agentcli.tui.repaint.cells import certain_width
from agentcli.tui.textual_internals import end_screen_selection, paint_at_once

if TYPE_CHECKING:
    from agentcli.tui.prompt.box import PromptBox

_MOST_CUT = 100_000


class PromptEditor(BusyPump, TextArea, inherit_bindings=False):
    DEFAULT_CSS = """
    PromptEditor {
        width: 1fr;
        height: auto;
        min-height: 1;
        max-height: 34vh;
        border: none;
        padding: 0;
        background: transparent;
        color: $foreground;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        &:focus { border: none; }
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
        self._owner = owner
        self._keys = keys
        self.hint = ""
        self._number = 0
        self._cut = ""
        self.edits = 0
        self._editing = False
        self._typing_directly = self._is_echoed = False
        self._own_context: Context | None = None
        self._after_cut: tuple[int, Location] | None = None
        self._looks: dict[str, Style] = {}
        """Component styles by name, cached until styles change."""
        self._echoes: dict[str, tuple[Strip, Strip]] = {}
        """Results of `echo` by character, cached until styles change."""
        self.pieces: dict[str, Piece] = {}
        """Chip contents by label, including chips no longer in the text, because undo may restore them."""
        super().__init__(
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            highlight_cursor_line=False,
            id="prompt-editor",
        )
        self.cursor_blink = False
        self.indent_width = TAB  # tab width of pasted text, the same as in the transcript
        self.match_cursor_bracket = False

    def _set_document(self, text: str, language: str | None) -> None:
        super()._set_document(text, language)
        self.wrapped_document = WrappedPrompt(self.document, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        self._rewrap_and_refresh_virtual_size()

    @property
    def draft(self) -> Draft:
        text = self.text
        if not self.pieces:
            return Draft(text)
        present = {chip.group() for chip in CHIP.finditer(text)}
        return Draft(text, {label: piece for label, piece in self.pieces.items() if label in present})

    @property
    def is_empty(self) -> bool:
        return self.document.line_count == 1 and not self.document[0]

    def put(self, draft: Draft) -> None:
        self.replace(self.adopt(draft), (0, 0), self.document.end, maintain_selection_offset=False)

    def reset(self) -> None:
        self.pieces.clear()
        self._number = 0
        self._after_cut = None
        self.load_text("")

    def put_in(self, text: str) -> None:
        self._replace_via_keyboard(clean_text(text), *self.selection)

    def put_in_pasted(self, text: str) -> None:
        """Insert text from outside, as a chip if it is large, without anything that a terminal would obey."""
        text = without_controls(text, visible=not is_large(text))
        if is_large(text):
            self._put_in_chip(lambda number: pasted_chip(number, text), PastedPiece(clean_text(text)))
        elif text:
            self.put_in(text)

    def put_in_image(self, name: str, piece: ImagePiece) -> str:
        return self._put_in_chip(lambda number: image_chip(number, name), piece)

    def _put_in_chip(self, label_of: Callable[[int], str], piece: Piece) -> str:
        self._number += 1
        label = label_of(self._number)
        self.pieces[label] = piece
        row, column = min(self.selection)
        before = self.document[row][:column]
        # A blank between two chips, or between a word and a chip, makes both easier to read and edit.
        self.put_in(f" {label} " if before and not before[-1].isspace() else f"{label} ")
        return label

    def adopt(self, draft: Draft) -> str:
        """Add the draft's chips to `pieces` and return its text, with chips renumbered where labels collide."""
        kept: list[str] = []
        at = 0
        for start, end, piece in draft.chips():
            label = draft.text[start:end]
            if self.pieces.get(label, piece) != piece:
                head, rest = label.split(" #", 1)
                taken = max(self._number, *(_number_of(known) for known in self.pieces)) + 1
                label = f"{head} #{taken}:{rest.split(':', 1)[1]}"
            self.pieces[label] = piece
            self._number = max(self._number, _number_of(label))
            kept += (draft.text[at:start], label)
            at = end
        return "".join((*kept, draft.text[at:]))

    async def _on_key(self, event: events.Key) -> None:
        """Handle keys synchronously here, so that they take effect in the order in which they were typed."""
        key = self._keys.get(event.key)
        if key is not None:
            event.prevent_default()
            own = getattr(self, f"action_{key.action}", None)
            if own is None:
                taken = self._owner.act(key.action)
            else:
                taken = True
                own(True) if key.select else own()
            if taken or self._owner.interrupts(event):
                event.stop()
        elif self._owner.interrupts(event):
            event.stop()
            event.prevent_default()
        elif event.key in ("enter", "tab", "escape"):
            event.prevent_default()
        elif event.character == "?" and self.is_empty and self._owner.act("help"):
            event.stop()
            event.prevent_default()
        elif (character := event.character) is not None and not event.is_printable and category(character[-1]) == "Cf":
            # Joiners and similar format characters are valid input, though Python does not consider them printable.
            event.stop()
            event.prevent_default()
            self.put_in(without_controls(character))

    def on_mount(self) -> None:
        self._own_context = copy_context()
        # The background is that of the screen, so it changes without a style update of this widget.
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._forget_looks())

    def would_type(self, event: events.Key) -> bool:
        """Whether a key would only insert its character, with no earlier work pending."""
        character = event.character
        if self._own_context is None or self.has_work or event.key in self._keys:
            return False
        return character is not None and character.isprintable() and not (character == "?" and self.is_empty)

    def echo(self, event: events.Key) -> tuple[Strip, Strip] | None:
        """Cells from the cursor on, as they should be painted now and as they will be after a key inserts its
        character; None unless the character is appended to a line. They are known long before the edit is applied and
        painted."""
        character, (start, end) = event.character, self.selection
        if not character or certain_width(character) != 1 or start != end or end[1] != len(self.document[end[0]]):
            return None
        found = self._echoes.get(character)
        if found is None and self._own_context is not None:
            found = self._echoes[character] = self._own_context.run(self._make_echo, character)
        return found

    def _make_echo(self, character: str) -> tuple[Strip, Strip]:
        base, cursor = self._base, self._base + self._look("cursor")
        # There must be room for one more cell after the cursor, otherwise the line could wrap.
        before = Strip((Segment(" ", cursor), Segment("  ", base)), 3)
        after = Strip((Segment(character, base), Segment(" ", cursor)), 2)
        before, after = self._filtered([before, after])
        return before, after

    def type_directly(self, event: events.Key, *, is_echoed: bool) -> None:
        """Insert the character of a key immediately, without the editor's message queue. See `would_type`."""
        if self._own_context is not None and event.character is not None:
            self._typing_directly, self._is_echoed = True, is_echoed
            try:
                self._own_context.run(self._replace_via_keyboard, event.character, *self.selection)
            finally:
                self._typing_directly = self._is_echoed = False

    def paint_typed(self) -> None:
        """Paint directly typed text. If a layout is needed first, it is painted as usual."""
        if self._own_context is not None:
            self._own_context.run(self._paint_typed)

    def _paint_typed(self) -> None:
        self._typing_directly = True
        self.refresh()
        self._typing_directly = False
        if not paint_at_once(self):
            self.check_idle()

    def tell_of_typed(self) -> None:
        """Notify the owner of directly typed text."""
        if self._own_context is not None:
            self._own_context.run(lambda: self._owner.changed(text=True))

    def check_idle(self) -> None:
        if not self._typing_directly:  # a message to itself would count as work and delay the next character
            super().check_idle()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self._owner.pasted(event.text)

    def chips_in(self, row: int) -> list[tuple[int, int]]:
        if not self.pieces:
            return []
        return [chip.span() for chip in CHIP.finditer(self.document[row]) if chip.group() in self.pieces]

    def _chip_around(self, row: int, column: int) -> tuple[int, int] | None:
        return next((span for span in self.chips_in(row) if span[0] < column < span[1]), None)

    def get_cursor_left_location(self) -> Location:
        row, column = self.cursor_location
        if column == 0:
            return super().get_cursor_left_location()
        chip = next((span for span in self.chips_in(row) if span[0] < column <= span[1]), None)
        return row, chip[0] if chip else boundary_before(self.document[row], column)

    def get_cursor_right_location(self) -> Location:
        row, column = self.cursor_location
        line = self.document[row]
        if column >= len(line):
            return super().get_cursor_right_location()
        chip = next((span for span in self.chips_in(row) if span[0] <= column < span[1]), None)
        return row, chip[1] if chip else boundary_after(line, column)

    def get_cursor_word_left_location(self) -> Location:
        row, column = super().get_cursor_word_left_location()
        chip = self._chip_around(row, column)
        return row, chip[0] if chip else column

    def get_cursor_word_right_location(self) -> Location:
        row, column = super().get_cursor_word_right_location()
        chip = self._chip_around(row, column)
        return row, chip[1] if chip else column

    def get_cursor_line_start_location(self, smart_home: bool = False) -> Location:
        return self.cursor_location[0], 0  # start of the line, not of the wrapped row, as in shells

    def get_cursor_line_end_location(self) -> Location:
        row = self.cursor_location[0]
        return row, len(self.document[row])

    def _validate_selection(self, selection: Selection) -> Selection:
        """Keep the cursor outside of chips and grapheme clusters, however it was moved."""
        start, end = super()._validate_selection(selection)
        placed = self._placed(end)
        return Selection(placed if start == end else self._placed(start), placed)

    def _placed(self, location: Location) -> Location:
        row, column = location
        line = self.document[row]
        if (chip := self._chip_around(row, column)) is not None:
            return row, chip[0] if column - chip[0] < chip[1] - column else chip[1]
        return row, column if line.isascii() else boundary_near(line, column)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        return super()._delete_via_keyboard(*self._with_whole_chips(start, end))

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        return super()._replace_via_keyboard(insert, *self._with_whole_chips(start, end))

    def _with_whole_chips(self, start: Location, end: Location) -> tuple[Location, Location]:
        start, end = sorted((start, end))
        if start != end and self.pieces:
            if (chip := self._chip_around(*start)) is not None:
                start = (start[0], chip[0])
            if (chip := self._chip_around(*end)) is not None:
                end = (end[0], chip[1])
        return start, end

    def edit(self, edit: Edit) -> EditResult:
        """Apply an edit like the text area, without its suggestions, line numbers and highlighting."""
        self._editing = True
        try:
            rows = len(self.wrapped_document._offset_to_line_info)
            result = edit.do(self)
            self.history.record(edit)
            self.wrapped_document.wrap_range(edit.top, edit.bottom, result.end_location)
            if self._is_echoed and rows == len(self.wrapped_document._offset_to_line_info):
                self._follow_echo(result.end_location)
            else:
                edit.after(self)
        finally:
            self._editing = False
        self._refresh_size()
        self._tell_of_edit()
        return result

    def _follow_echo(self, location: Location) -> None:
        """Move the cursor past a character that the terminal already shows: it stays in its row, and nothing scrolls.
        Does the same as setting the selection, without the updates of surrounding widgets."""
        self.set_reactive(TextArea.selection, Selection.cursor(location))
        before, self._cursor_offset = self._cursor_offset, self.wrapped_document.location_to_offset(location)
        self.navigator.last_x_offset = self._cursor_offset[0]
        end_screen_selection(self.screen)
        # After a joiner, a character may take no cell.
        self.app.cursor_position += (self._cursor_offset[0] - before[0], 0)

    def _tell_of_edit(self) -> None:
        self.edits += 1
        if not self._typing_directly:  # otherwise the owner is notified after painting
            self._owner.changed(text=True)

    def post_message(self, message: Message) -> bool:
        """Notify the owner of changes with a call instead of messages: in order with the keys, and cheaper per key."""
        if isinstance(message, TextArea.Changed):
            self._tell_of_edit()
            return True
        return super().post_message(message)

    def _watch_selection(self, previous_selection: Selection, selection: Selection) -> None:
        """Like the text area, without bracket matching, and scrolling to the cursor only if it may be out of view."""
        if not self.is_mounted:
            return
        end_screen_selection(self.screen)
        if self.scroll_y or self.wrapped_document.height > self.size.height:
            self.scroll_cursor_visible()
        else:
            self._cursor_offset = self.wrapped_document.location_to_offset(selection.end)
        self.app.cursor_position = self.cursor_screen_offset
        if previous_selection != selection and not self._editing:
            self._owner.changed(text=False)

    def _refresh_size(self) -> None:
        if self.wrapped_document.height != self.virtual_size.height:
            super()._refresh_size()

    def action_kill_word_left(self) -> None:
        self._kill(self.get_cursor_word_left_location())

    def action_kill_word_right(self) -> None:
        self._kill(self.get_cursor_word_right_location())

    def action_kill_line_start(self) -> None:
        row, column = self.cursor_location
        self._kill((row, 0) if column else self.get_cursor_left_location())

    def action_kill_line_end(self) -> None:
        end = self.get_cursor_line_end_location()
        self._kill(end if end != self.cursor_location else self.get_cursor_right_location())

    def _kill(self, to: Location) -> None:
        """Cut up to a location, or the selection. Consecutive cuts are yanked together."""
        start, end = self.selection if not self.selection.is_empty else (self.cursor_location, to)
        start, end = self._with_whole_chips(start, end)
        if not (text := self.get_text_range(start, end)):
            return
        if self._after_cut == (self.edits, self.cursor_location):
            text = self._cut + text if start == self.cursor_location else text + self._cut
        self._cut = text[:_MOST_CUT]
        self._delete_via_keyboard(start, end)
        self._after_cut = (self.edits, self.cursor_location)

    def action_yank(self) -> None:
        if self._cut:
            self.put_in(self._cut)

    @classmethod
    def _get_component_classes(cls) -> frozenset[str]:  # type: ignore[override]  # a cached function there
        """Only our own: `TextArea`'s component styles are unused here but would be computed at every style change."""
        return frozenset(cls.COMPONENT_CLASSES)

    def _look(self, name: str) -> Style:
        found = self._looks.get(name)
        if found is None:
            found = self._looks[name] = self.get_component_rich_style(f"prompt-editor--{name}", partial=True)
        return found

    @property
    def _base(self) -> Style:
        found = self._looks.get("")
        if found is None:
            found = self._looks[""] = self.rich_style
        return found

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget_looks()

    def _forget_looks(self) -> None:
        self._looks.clear()
        self._echoes.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render rows without borders, padding, links and the row cache, which cost more than the row that changes."""
        width = self.outer_size.width
        strips = [self.render_line(y).adjust_cell_length(width, self._base) for y in crop.line_range]
        strips = self._filtered(strips)
        return strips if crop.column_span == (0, width) else [strip.crop(*crop.column_span) for strip in strips]

    def _filtered(self, strips: list[Strip]) -> list[Strip]:
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, self.background_colors[1]) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self._base
        if self.is_empty:
            return self._empty_row(y, width, base)
        y += self.scroll_offset.y
        rows = self.wrapped_document._offset_to_line_info
        if y >= len(rows):
            return Strip.blank(width, base)
        line_index, section = rows[y]
        line = self.document[line_index]
        offsets = self.wrapped_document.get_offsets(line_index)
        begin = offsets[section - 1] if section else 0
        end = offsets[section] if section < len(offsets) else len(line)
        tab_widths = self.wrapped_document.get_tab_widths(line_index)[line.count("\t", 0, begin) :]
        segments = painted(line, begin, end, list(self._spans(line_index, line)), tab_widths)
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    def _empty_row(self, y: int, width: int, base: Style) -> Strip:
        if y:
            return Strip.blank(width, base)
        cursor = self._look("cursor") if self._draw_cursor else None
        hint = self.hint or " "
        look = self._look("placeholder")
        first, rest = hint[0], hint[1:]
        segments = [Segment(first, look + cursor if cursor else look), Segment(rest, look)]
        if cell_len(hint) > width > 1:
            segments = [segments[0], *Strip([segments[1]]).crop(0, width - 2), Segment("…", look)]
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    def _spans(self, line_index: int, line: str) -> Iterator[StyledColumns]:
        """Styled column ranges of a line; later ones override earlier ones."""
        for start, stop in self.chips_in(line_index):
            yield start, stop, self._look("chip")
        first, last = sorted(self.selection)
        if first != last and first[0] <= line_index <= last[0]:
            start = first[1] if line_index == first[0] else 0
            stop = last[1] if line_index == last[0] else len(line) + 1
            yield start, stop, self._look("selection")
        row, column = self.cursor_location
        if row == line_index and self._draw_cursor:
            yield column, boundary_after(line, column) if column < len(line) else column + 1, self._look("cursor")


def _number_of(label: str) -> int:
    return int(label.split(" #", 1)[1].split(":", 1)[0])
