"""List to choose from: typing filters immediately, Enter chooses, Esc cancels.

Every list that the user chooses from is this screen with other rows. On a wide screen what a row
stands for is shown beside the list; on a narrow one the text that the list had to cut is shown under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Offset

from agentcli.tui.screens.row_list import FoundEntry, Row, RowList, entries_of, find
from agentcli.tui.screens.sheet import MARGIN, Keys, Sheet
from agentcli.tui.screens.text import EntryLine, Runs, StyledRows, first_rows, safe, safe_block, wrap_rows

T = TypeVar("T")
R = TypeVar("R")
Preview = Callable[[Row[T]], Sequence[str]]
Action = tuple[str, str, Callable[[], object]]
"""A key of a list, what it does in a word ("" if it is not shown), and the function to call."""

MAX_AT_ONCE = 1_000
"""Rows that are searched without delaying a key; more are searched in a thread."""
_PREVIEW_ROWS = 12
_PREVIEW_PAUSE = 0.05
"""Delay in seconds before a preview is read in a thread, so that a held arrow key does not read all rows."""


_MOVES: Mapping[str, Callable[[RowList[Any]], None]] = {
    "up": lambda rows: rows.move(-1),
    "ctrl+p": lambda rows: rows.move(-1),
    "down": lambda rows: rows.move(1),
    "ctrl+n": lambda rows: rows.move(1),
    "pageup": lambda rows: rows.move_page(-1),
    "pagedown": lambda rows: rows.move_page(1),
    "home": lambda rows: rows.move_to(0),
    "end": lambda rows: rows.move_to(rows.row_count - 1),
}


class ListSheet(Sheet[R], Generic[T, R]):
    """A sheet with a list of values (T) that closes with a result, possibly of another type (R).

    `rows` are shown in the given order; the cursor starts at the row with the value `start`.
    """

    DEFAULT_CSS = """
    ListSheet #preview { width: 1fr; height: 1fr; padding: 0 1 0 0; }
    ListSheet #about, ListSheet #head { padding: 0 1; }
    """

    letters: ClassVar[bool] = False
    """Whether letters are keys of the page; a search then begins with `/` and ends with Esc."""
    wide: ClassVar[int] = 100
    """Minimum number of columns for a preview."""
    preview_in_thread: ClassVar[bool] = False
    preview_end: ClassVar[bool] = False
    """Whether a preview that does not fit shows its end."""
    preview_keeps: ClassVar[int] = 0
    """Number of first rows of such a preview that stay visible above its end."""
    unlisted_first: ClassVar[bool] = False
    max_query: ClassVar[int] = 200
    label_cells: ClassVar[int] = 10**6
    """Maximum width of the first column; what it cuts is shown below the list."""

    verb = "choose"
    """What Enter does, for the row of keys."""
    close_word = "back"
    placeholder = "type to search"
    empty = "There is nothing to choose from."

    def __init__(
        self,
        title: str,
        rows: Sequence[Row[T]],
        start: T | None = None,
        preview: Preview[T] | None = None,
    ) -> None:
        super().__init__(title)
        self._entries = entries_of(rows)
        self._start = start
        self._preview = preview
        self._is_searching = False
        self._found_count = len(self._entries)
        self._typed_row: Row[T] | None = None
        self._said = ""
        """Message below the list, e.g. why the last Enter did nothing."""
        self._is_good = False
        """Whether the message reports a success."""
        self._about_shown = 0
        self._about_height = (0, 0)
        """Width, and the maximum rows needed so far at that width, so that the sheet does not jump while moving."""

    def head(self, width: int, room: int) -> list[Runs]:
        """Rows above the list; `room` is the number of rows for them and the list."""
        return []

    @property
    def asks(self) -> bool:
        """Whether `about` is a question; then nothing else takes its room."""
        return False

    def about(self, row: Row[T] | None, width: int) -> list[Runs]:
        """Rows below the list with details of the row under the cursor."""
        return []

    def follow_cursor(self, row: Row[T] | None) -> None:
        """Called when the cursor has moved to a row."""

    def choose(self, row: Row[T]) -> None:
        """Called for Enter or a click on a row that can be chosen."""
        raise NotImplementedError

    def make_unlisted(self, query: str) -> Row[T] | None:
        """A row for a query that is not in the list; None if only listed rows can be chosen."""
        return None

    def say(self, text: str, *, good: bool = False) -> None:
        """Show a message below the list until the cursor moves: why a key did nothing, or a success (`good`)."""
        self._said, self._is_good = text, good
        self.settle()

    def enter_word(self) -> str:
        """What Enter does with the row under the cursor; "" if nothing."""
        return self.verb

    def actions(self) -> Sequence[Action]:
        """Keys of the row under the cursor or of the list, if letters are keys (`letters`)."""
        return ()

    def keys(self) -> Keys:
        word = self.enter_word()
        enter = [("Enter", word)] if word else []
        if self.letters and self.searching:
            return [("↑↓", "move"), *enter, ("Esc", "end search")]
        search = [("/", "search")] if self.letters else []
        letters = [(key, word) for key, word, _do in self.actions() if word]
        return [*search, ("↑↓", "move"), *letters, *enter, ("Esc", self.close_word)]

    def parts(self) -> ComposeResult:
        yield StyledRows(id="head")
        yield EntryLine("⌕", self.placeholder, self.max_query)
        with Horizontal(id="body"):
            yield RowList[T](self.palette, self._cursor_moved, id="rows")
            yield StyledRows(id="preview")
        yield StyledRows(id="about")

    @property
    def listing(self) -> RowList[T]:
        return self.query_one(RowList)

    @property
    def query_text(self) -> str:
        return self.entry.line.text

    @property
    def searching(self) -> bool:
        return not self.letters or self.entry.display

    @property
    def row(self) -> Row[T] | None:
        return self.listing.row

    def on_mount(self) -> None:  # Textual also calls `Sheet.on_mount`, after this one
        self.entry.display = not self.letters
        self.query_one("#preview").display = False  # until the layout finds room for it
        self.listing.measure(self._entries, self.label_cells)
        values = [entry.row.value for entry in self._entries]
        start = values.index(self._start) if self._start is not None and self._start in values else 0
        self._show(find(self._entries, ""), start, grouped=True)

    def set_rows(self, rows: Sequence[Row[T]]) -> None:
        """Replace the rows; cursor (by value) and search query stay."""
        here = self.row.value if self.row is not None else self._start
        self._entries = entries_of(rows)
        self.listing.measure(self._entries, self.label_cells)
        self._filter(here)
        self.settle()

    def lay_out(self, width: int, room: int) -> None:
        head, body, about = (
            self.query_one("#head", StyledRows),
            self.query_one("#body"),
            self.query_one("#about", StyledRows),
        )
        search = 1 if self.searching else 0
        wide = self._preview is not None and width >= self.wide and bool(self._entries)
        self.query_one("#preview").display = wide
        rows = self.head(max(1, width - 2 * MARGIN), room - search - 1)
        head.show(rows, len(rows))
        below = min(self._about_rows(width), max(0, (room - search - len(rows)) // 2))
        self._about_shown = below
        about.show(about.rows, below)
        wanted = max(1, len(self._entries) + len({entry.row.group for entry in self._entries if entry.row.group}))
        if wide:
            wanted = max(wanted, _PREVIEW_ROWS)
        wanted = max(wanted, self.min_rows - search - len(rows) - below)
        body.styles.height = max(1, min(wanted, room - search - len(rows) - below))
        if wide:
            self.call_after_refresh(self._show_preview)

    def _about_rows(self, width: int) -> int:
        known, most = self._about_height
        if known != width:
            most = 1 if self.listing.is_cut(width) and not self.query_one("#preview").display else 0
        most = max(most, len(self._about(width)))
        self._about_height = (width, most)
        return most

    def _about(self, width: int) -> list[Runs]:
        palette, row = self.palette, self.listing.row
        room = max(1, width - 2 * MARGIN)
        if self._said:
            sign, style = ("✓ ", palette.success) if self._is_good else ("! ", palette.warning)
            return wrap_rows([(sign, style), (self._said, style)], room, 2)
        hidden = self.listing.hidden_text(width) if not self.query_one("#preview").display else ""
        lines = wrap_rows([(hidden, palette.text)], room, 2) if hidden else []
        more = self.about(row, room)
        return more if self.asks else lines + more

    @property
    def marked_cell(self) -> Offset:
        return self.listing.marked_cell

    def paint(self) -> None:
        super().paint()
        palette, rows = self.palette, self.listing
        rows.palette = palette
        rows.empty = self.empty if not self._entries else f"No match for “{self.query_text[:40]}”."
        rows.refresh()
        self.entry.repaint(palette)
        self.query_one("#about", StyledRows).show(first_rows(self._about(self.size.width), self._about_shown))

    def asides(self) -> Sequence[str]:
        total = len(self._entries)
        if self._found_count != total:
            return (f"{self._found_count:,} of {total:,}",)
        return (f"{total:,}",) if total > 9 else ()

    def _show(self, found: Sequence[FoundEntry[T]], cursor: int, grouped: bool) -> None:
        self._found_count = sum(each.entry.row is not self._typed_row for each in found)
        self._said = ""
        self.listing.show(found, cursor, grouped)
        self._after_move()

    def _after_move(self) -> None:
        self.follow_cursor(self.row)
        self._show_preview()
        if len(self._about(self.size.width)) > self._about_height[1]:
            self.settle()
        else:
            self.paint()

    def _show_preview(self) -> None:
        if not self.is_open:
            return
        row, pane = self.row, self.query_one("#preview", StyledRows)
        if self._preview is None or row is None or not pane.display:
            pane.show([])
        elif self.preview_in_thread:
            self.work(partial(self._read_preview, row), "preview")
        else:
            self._fill_preview(self._preview(row))

    async def _read_preview(self, row: Row[T]) -> None:
        if self._preview is None:
            return
        await asyncio.sleep(_PREVIEW_PAUSE)
        lines = await asyncio.to_thread(self._preview, row)
        if self.is_open and self.row is row:
            self._fill_preview(lines)

    def _fill_preview(self, lines: Sequence[str]) -> None:
        text = self.palette.text
        rows = [[(part, text)] for line in lines[:200] for part in safe_block(line[:2000])]
        pane = self.query_one("#preview", StyledRows)
        width = max(1, (pane.size.width or self.size.width // 2 - 1) - 2)
        pieces = [piece for row in rows for piece in wrap_rows(row, width, 4)]
        height = pane.size.height
        if self.preview_end and len(pieces) > height > 0:
            keeps = self.preview_keeps if self.preview_keeps < height - 1 else 0
            head: list[Runs] = [*pieces[:keeps], [("…", self.palette.muted)]] if keeps else []
            pieces = [*head, *pieces[len(head) - height :]]
        pieces += [[] for _row in range(height - len(pieces))]
        pane.show([[("│ ", self.palette.faint), *piece] for piece in pieces])

    def _filter(self, keep: T | None = None) -> None:
        self._is_searching = len(self._entries) > MAX_AT_ONCE and bool(self.query_text.strip())
        if self._is_searching:
            self.work(self._search, "search")
        else:
            self._show_found(find(self._entries, self.query_text), keep)

    async def _search(self) -> None:
        found = await asyncio.to_thread(find, self._entries, self.query_text)
        if self._is_searching and self.is_open:
            self._is_searching = False
            self._show_found(found, None)

    def _finish_search(self) -> None:
        if self._is_searching:
            self._is_searching = False
            self._show_found(find(self._entries, self.query_text), None)

    def _show_found(self, found: list[FoundEntry[T]], keep: T | None) -> None:
        query = self.query_text.strip()
        self._typed_row = self.make_unlisted(query) if query else None
        if self._typed_row is not None:
            typed = FoundEntry(entries_of([self._typed_row])[0])
            found = [typed, *found] if self.unlisted_first else [*found, typed]
        if not query and keep is None and self.row is not None:
            keep = self.row.value  # the query was deleted: keep the cursor on its row
        values = [each.entry.row.value for each in found] if keep is not None else []
        self._show(found, values.index(keep) if keep in values else 0, grouped=not query)

    def press(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self.back()
        elif key in _MOVES:
            self._finish_search()
            _MOVES[key](self.listing)
        elif key == "enter":
            self.enter()
        elif not self.searching:
            return self._begin_search() if character == "/" else self._act_on(key)
        else:
            return self._edit(key, character)
        return True

    def back(self) -> None:
        self._end_search() if self.letters and self.searching else self.leave()

    def _act_on(self, key: str) -> bool:
        act = next((act for name, _word, act in self.actions() if name == key), None)
        if act is not None:
            act()
        return act is not None

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self.searching:
            self.entry.line.insert(event.text[: 2 * self.max_query])
            self._filter()

    def _edit(self, key: str, character: str | None) -> bool:
        line = self.entry.line
        before = line.text
        if not line.press(key, character):
            return False
        if line.text != before:
            self._filter()
        self.entry.repaint(self.palette)
        return True

    def _begin_search(self) -> bool:
        self.entry.display = True
        self.settle()
        return True

    def _end_search(self) -> None:
        self.entry.line.clear()
        self.entry.display = False
        self._filter()
        self.settle()

    def _cursor_moved(self) -> None:
        self._said = ""
        self._after_move()

    @on(RowList.Chosen)
    def _clicked(self, event: RowList.Chosen) -> None:
        event.stop()
        self.enter()

    def enter(self) -> None:
        self._finish_search()
        row = self.row
        if row is None:
            return
        if row.disabled:
            self.say(f"{safe(row.label)} cannot be chosen: {safe(row.disabled)}")
        else:
            self.choose(row)


class Picker(ListSheet[T, T]):
    def choose(self, row: Row[T]) -> None:
        self.dismiss(row.value)
