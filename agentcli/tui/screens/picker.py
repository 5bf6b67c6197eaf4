"""List to choose from: typing filters immediately, Enter chooses, Esc cancels.

Every list that the user chooses from is this screen with other rows. On a wide screen what a row
stands for is shown beside the list; on a narrow one the text that the list had to cut is shown under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Offset

from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.row_list import MOVES, FoundEntry, Row, RowEntry, RowList, entries_of, find
from agentcli.tui.screens.sheet import MARGIN, Keys, Sheet
from agentcli.tui.screens.text import EntryLine, StyledRows, first_rows, safe, safe_block, wrap_rows

T = TypeVar("T")
R = TypeVar("R")
Preview = Callable[[Row[T]], Sequence[str]]
Action = tuple[str, str, Callable[[], object]]
"""A key of a list, what it does in a word ("" if it is not shown), and the function to call."""

_PREVIEW_ROWS = 12
_PREVIEW_PAUSE = 0.05
"""Delay in seconds before a preview is read in a thread, so that a held arrow key does not read all rows."""


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
    max_at_once: ClassVar[int] = 300
    """Rows that are searched without delaying a key; more are searched in a thread."""
    expected_rows: ClassVar[int] = 1
    """Rows to have room for although there are fewer."""
    label_cells: ClassVar[int] = 10**6
    """Maximum width of the first column; what it cuts is shown below the list."""

    verb = "choose"
    """What Enter does, for the row of keys."""
    close_word = "back"
    placeholder = "type to search"
    empty = "There is nothing to choose from."

    def __init__(
        self, title: str, rows: Sequence[Row[T]], start: T | None = None, preview: Preview[T] | None = None
    ) -> None:
        super().__init__(title)
        self._entries = entries_of(rows)
        self._start = start
        self._preview = preview
        self._found_count = len(self._entries)
        self._typed_row: Row[T] | None = None
        self._is_finding = False
        """Whether a thread searches; what is shown then are the rows for an earlier query."""
        self._keep: T | None = None
        """Value whose row the cursor stays on after the search."""
        self._held: list[events.Key] = []
        """Keys for the rows that the thread is about to find."""
        self._said = ""
        """Message below the list, e.g. why the last Enter did nothing."""
        self._is_good = False
        """Whether the message reports a success."""
        self._about_rows = 0
        """Rows shown below the list."""
        self._most_about = 0
        """Maximum rows needed there so far, so that the sheet does not jump while the cursor moves."""

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

    def search(self, entries: Sequence[RowEntry[T]], query: str) -> list[FoundEntry[T]]:
        """Entries that match a query, the best first. Also called in a thread."""
        return find(entries, query)

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
        self._set_entries(entries_of(rows))

    def _set_entries(self, entries: list[RowEntry[T]]) -> None:
        here = self.row.value if self.row is not None else self._start
        self._entries = entries
        self.listing.measure(self._entries, self.label_cells)
        said = self._said
        self._filter(here)
        self._said = said
        self.settle()

    def lay_out(self, width: int, room: int) -> None:
        head, about = self.query_one("#head", StyledRows), self.query_one("#about", StyledRows)
        room -= self.searching
        wide = self._preview is not None and width >= self.wide and bool(self._entries)
        self.query_one("#preview").display = wide
        rows = self.head(max(1, width - 2 * MARGIN), room - 1)
        head.show(rows, len(rows))
        room -= len(rows)
        self._most_about = max(self._most_about, len(self._about(width)), self.listing.is_cut(width) and not wide)
        self._about_rows = min(self._most_about, max(0, room // 2))
        about.show(about.rows, self._about_rows)
        groups = {entry.row.group for entry in self._entries if entry.row.group}
        wanted = max(len(self._entries) + len(groups), _PREVIEW_ROWS if wide else 1, self.expected_rows)
        covering = self.min_rows - self.searching - len(rows) - self._about_rows
        self.query_one("#body").styles.height = max(1, min(max(wanted, covering), room - self._about_rows))
        if wide:
            self.call_after_refresh(self._show_preview)

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
        no_match = "Searching…" if self._is_finding else f"No match for “{self.query_text[:40]}”."
        rows.empty = no_match if self._entries else self.empty
        rows.refresh()
        self.entry.repaint(palette)
        self.query_one("#about", StyledRows).show(first_rows(self._about(self.size.width), self._about_rows))

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
        if len(self._about(self.size.width)) > self._most_about:
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
        pane = self.query_one("#preview", StyledRows)
        width = max(1, (pane.size.width or self.size.width // 2 - 1) - 2)
        parts = [part for line in lines[:200] for part in safe_block(line[:2000])]
        pieces = [piece for part in parts for piece in wrap_rows([(part, self.palette.text)], width, 4)]
        height = pane.size.height
        if self.preview_end and len(pieces) > height > 0:
            keeps = self.preview_keeps if self.preview_keeps < height - 1 else 0
            head: list[Runs] = [*pieces[:keeps], [("…", self.palette.muted)]] if keeps else []
            pieces = [*head, *pieces[len(head) - height :]]
        pieces += [[] for _row in range(height - len(pieces))]
        pane.show([[("│ ", self.palette.faint), *piece] for piece in pieces])

    def _filter(self, keep: T | None = None) -> None:
        self._keep = keep
        if len(self._entries) <= self.max_at_once or not self.query_text.strip():
            self._show_found(self.search(self._entries, self.query_text))
        elif not self._is_finding:
            self._is_finding = True
            self.work(self._find, "find")

    async def _find(self) -> None:
        """Search in a thread until the query no longer changes: at most one thread at a time."""
        while self._is_finding:
            entries, query = self._entries, self.query_text
            found = await asyncio.to_thread(self.search, entries, query)
            if not self.is_open:
                return
            if self._is_finding and entries is self._entries and query == self.query_text:
                self._show_found(found)
                return

    def _show_found(self, found: list[FoundEntry[T]]) -> None:
        self._is_finding = False
        query, keep = self.query_text.strip(), self._keep
        self._typed_row = self.make_unlisted(query) if query else None
        if self._typed_row is not None:
            typed = FoundEntry(entries_of([self._typed_row])[0])
            found = [typed, *found] if self.unlisted_first else [*found, typed]
        if not query and keep is None and self.row is not None:
            keep = self.row.value  # the query was deleted: keep the cursor on its row
        values = [each.entry.row.value for each in found] if keep is not None else []
        self._show(found, values.index(keep) if keep in values else 0, grouped=not query)
        held, self._held = self._held, []
        for event in held:
            self.on_key(event)

    def press(self, key: str, character: str | None) -> bool:
        if self._held or (self._is_finding and (key == "enter" or key in MOVES)):
            self._held.append(events.Key(key, character))
        elif key == "escape":
            self.back()
        elif self.listing.press(key):
            pass
        elif key == "enter":
            self.enter()
        elif self.searching:
            return self._edit(key, character)
        elif character == "/":
            self.entry.display = True
            self.settle()
        else:
            act = next((act for name, _word, act in self.actions() if name == key), None)
            if act is None:
                return False
            act()
        return True

    def back(self) -> None:
        if not (self.letters and self.searching):
            self.leave()
            return
        self.entry.line.clear()
        self.entry.display = False
        self._filter()
        self.settle()

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

    def _cursor_moved(self) -> None:
        self._said = ""
        self._after_move()

    @on(RowList.Chosen)
    def _clicked(self, event: RowList.Chosen) -> None:
        event.stop()
        self.enter()

    def enter(self) -> None:
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
