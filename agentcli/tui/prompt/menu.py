"""The completion menu of the prompt: its widget, and what keeps it in step with the typed text.

The menu overlays the transcript, so that nothing moves when it opens. File searches run as a task: one at a time,
always for the newest query; late results for an older query are dropped. Commands are shown at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar
from unicodedata import category

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import visible_text
from agentcli.interactive.completion import (
    Candidate,
    Completions,
    FoundFiles,
    Menu,
    Target,
    argument_menu,
    command_menu,
    file_menu,
    target_at,
)

if TYPE_CHECKING:
    from agentcli.tui.prompt.editor import PromptEditor

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


def show_label(text: str) -> str:
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
        self._title, self._note = show_label(title), show_label(note)
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
        self.styles.height = lines  # lays out the whole screen again, if it changes
        self.styles.offset = (0, -lines)
        self.add_class("-open")
        self.refresh()

    def close(self) -> None:
        if self.is_open:
            self._rows = ()
            self._note = ""
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
        return cut_row(segments, width, base)

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
        label, hint, detail = show_label(row.label), show_label(row.hint), show_label(row.detail)
        muted = [Segment(label, self._style("detail"))] if row.is_dimmed else None
        segments = [Segment("  "), *(muted or self._mark(label, row.positions))]
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

    def _mark(self, label: str, positions: tuple[int, ...]) -> list[Segment]:
        match = self._style("match")
        segments: list[Segment] = []
        at = 0
        for position in positions:
            if at <= position < len(label):
                segments += (Segment(label[at:position]), Segment(label[position], match))
                at = position + 1
        return [segment for segment in (*segments, Segment(label[at:])) if segment.text]


def cut_row(segments: list[Segment], width: int, base: Style) -> Strip:
    strip = Strip(segments)
    if strip.cell_length > width > 1:
        strip = Strip([*strip.crop(0, width - 1), Segment("…")])
    return strip.apply_style(base).adjust_cell_length(width, base)


_MAX_FILES = 50
_NOWHERE = (-1, 0)
_AGAIN_SECONDS = 0.05
"""Seconds between two updates of the results for one query, while files are still being listed or searched."""


class Assist:
    def __init__(self, editor: PromptEditor, popup: Popup, completions: Completions, room: Callable[[], int]) -> None:
        self._editor = editor
        self._popup = popup
        self._completions = completions
        self._room = room
        self._asking: asyncio.Task[None] | None = None
        self._menu: Menu | None = None
        self._target: Target | None = None
        self._seen = _NOWHERE
        self._dismissed: tuple[str, int] | None = None
        """Kind and start of the target whose menu was closed with Esc; typing on in it does not open the menu again."""
        self._wanted: Target | None = None
        self._asked_again = asyncio.Event()
        self._searching: asyncio.Task[None] | None = None
        self._take_first = False

    def update(self) -> None:
        now = self._position
        if now == self._seen:
            return
        typed = now[0] != self._seen[0]
        self._seen = now
        line, column, is_first = self._editor.line
        target = target_at(line, column, first_line=is_first) if not self._editor.buffer.selected_text else None
        if target is None or (not typed and self._target is None):
            self._dismissed = None if target is None else self._dismissed
            self._show(None)
            self._target = None
            return
        if self._dismissed == (target.kind, target.start):
            return
        self._dismissed = None
        self._look_for(target)

    @property
    def _position(self) -> tuple[int, int]:
        return self._editor.buffer.edits, self._editor.buffer.cursor

    def refresh_commands(self) -> None:
        """Update an open menu after commands were added or removed."""
        if self._target is not None and self._target.kind == "command":
            self._look_for(self._target)

    def quiet(self) -> None:
        """Text was set by other means than typing: no menu opens until the user types."""
        self._seen = self._position
        self._target = None
        self._show(None)

    def ask(self) -> bool:
        """Tab: open the menu at the cursor, even if it was closed. Return False if nothing can be completed there."""
        self._dismissed = None
        self._seen = _NOWHERE
        self.update()
        self._take_first = self._target is not None and self._menu is None
        return self._target is not None

    def dismiss(self) -> bool:
        if self._menu is None:
            return False
        self._dismissed = (self._menu.target.kind, self._menu.target.start)
        self._target = None
        self._show(None)
        return True

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that Enter would accept. None if the menu is older than the text."""
        return self.choose(self._popup.chosen)

    @property
    def typed(self) -> str:
        line, column, _is_first = self._editor.line
        return "" if self._target is None else line[self._target.start : column]

    def choose(self, index: int) -> Candidate | None:
        menu = self._menu
        if menu is None or menu.target != self._target or not 0 <= index < len(menu.candidates):
            return None
        self._popup.chosen = index
        return menu.candidates[index]

    def take(self, candidate: Candidate) -> None:
        target = self._target
        if target is None:
            return
        buffer, insert = self._editor.buffer, candidate.insert
        if buffer.text[buffer.cursor : buffer.cursor + 1] == " ":
            insert = insert.rstrip(" ")
        buffer.replace(buffer.line_start + target.start, buffer.cursor, insert)
        if candidate.then == "go on" or insert.startswith("/"):
            self._seen = _NOWHERE
            self.update()
        else:
            self.quiet()

    def _look_for(self, target: Target) -> None:
        began = self._target is None or self._target.kind != target.kind or self._target.start != target.start
        self._target = target
        if target.kind == "command":
            menu = command_menu(target, self._completions.commands)
            self._show(menu if menu.candidates else None)
        elif target.kind == "argument":
            known = self._completions
            self._show(argument_menu(target, known.commands, known.choices))
            self._ask_late(target)
        else:
            if began:
                self._show(None)
                self._completions.begin()
            self._wanted = target  # replaces an older query
            self._asked_again.set()
            if self._searching is None or self._searching.done():
                self._searching = start_task(self._search(), name="completion")

    async def _search(self) -> None:
        while (target := self._wanted) is not None:
            self._wanted = None
            self._asked_again.clear()
            found = await self._completions.files(target.query, _MAX_FILES)
            if target != self._target:
                continue
            wanted = self._wanted
            self._show_files(target, found)
            self._wanted = wanted
            if self._take_first and (candidate := self.choose(0)) is not None:
                self._take_first = False
                self.take(candidate)
            self._take_first &= not found.is_complete
            if not found.is_complete and self._wanted is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked_again.wait(), _AGAIN_SECONDS)
                if self._wanted is None and target == self._target:
                    self._wanted = target

    def _show_files(self, target: Target, found: FoundFiles) -> None:
        """Show files, keeping the selected one selected when more are found."""
        menu = file_menu(target, found)
        before = self.chosen if self._menu is not None and self._popup.chosen > 0 else None
        if before is not None and self._menu is not None and self._menu.target == target:
            at = next((at for at, one in enumerate(menu.candidates) if one.insert == before.insert), 0)
            menu = replace(menu, chosen=at)
        if self._menu is None or replace(menu, chosen=self._menu.chosen) != self._menu:
            self._show(menu if menu.candidates or menu.note else None)

    def _ask_late(self, target: Target) -> None:
        """Add slow completions when they arrive; a pending request for an older text is cancelled."""

        async def ask() -> None:
            known = self._completions
            values = await known.late_choices(target.command, target.query)
            if values and target == self._target:
                self._show(argument_menu(target, known.commands, lambda name: [*known.choices(name), *values]))

        if self._asking is not None:
            self._asking.cancel()
        self._asking = start_task(ask(), name="completion of arguments")

    def _show(self, menu: Menu | None) -> None:
        self._menu = menu
        if menu is None:
            self._wanted = None
            self._popup.close()
            return
        rows = [PopupRow(one.label, one.hint, one.detail, one.positions, one.is_dimmed) for one in menu.candidates]
        self._popup.open(rows, title=menu.title, note=menu.note, chosen=menu.chosen, room=self._room())

    async def aclose(self) -> None:
        await cancel_and_wait([task for task in (self._searching, self._asking) if task is not None])
