"""Sheets with text to read.

`Scroller` paints the rows, with search and copy; `ReadingSheet` is the base of pages and dialogs; `Page` has the keys
of `less`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from textual import events, work
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.sheet import MARGIN, Keys, Sheet
from agentcli.tui.screens.text import EntryLine, safe_block
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.search import FoundSpots, Query, matches_in, parse_query
from agentcli.tui.transcript.stack import StyledCells, cut, paint


class Scroller(ScrollView, can_focus=False):
    """Scrollable rows. The sheet sets its height and passes it the keys."""

    DEFAULT_CSS = """
    Scroller {
        width: 1fr; height: 0; padding: 0 0 0 1; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    """

    class Scrolled(Message):
        """Other rows are visible now."""

    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(id=id)
        self.palette = palette
        self.shown = 0
        self.searches_painted = False
        """Whether a search also finds what copying a row omits, such as the old side of a diff."""
        self._sought: Query | None = None
        self.matches: list[FoundSpots] = []
        self._match = 0
        self._lines: Sequence[BlockLine] = ()
        self._spots: dict[int, list[tuple[int, int, int]]] = {}
        """Cells of matches by row: start, end and number of the match."""
        self._row_after_resize: int | None = None

    # ------------------------------------------------------------------------------------------------------- the rows

    @property
    def row_count(self) -> int:
        return len(self._lines)

    def show(self, lines: Sequence[BlockLine], rows: int) -> None:
        is_new = lines is not self._lines
        self._lines = lines
        self.shown = rows
        self.styles.height = rows
        if is_new:
            self.virtual_size = Size(0, self.row_count)
            self._search()
        self.refresh()

    # ------------------------------------------------------------------------------------------------------ scrolling

    @property
    def overflows(self) -> bool:
        return self.row_count > self.shown

    @property
    def hidden(self) -> tuple[int, int]:
        top = min(round(self.scroll_y), max(0, self.row_count - self.shown))
        return top, max(0, self.row_count - self.shown - top)

    def press(self, key: str) -> bool:
        page, whole = max(1, self.shown - 1), self.row_count
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "home": -whole, "end": whole}
        if key in steps:
            self.move_to(self.hidden[0] + steps[key])
        return key in steps

    def move_to(self, row: int) -> None:
        y = max(0, min(row, self.row_count - self.shown))
        # Until it is laid out with fewer rows, Textual scrolls only as far as the old height allows.
        self._row_after_resize = y if self.size.height > self.shown else None
        self.scroll_to(y=y, animate=False, immediate=True)
        self.post_message(self.Scrolled())

    def reveal(self, first: int, last: int) -> None:
        """Scroll as little as needed to show these rows; the first takes precedence."""
        top = self.hidden[0]
        if first < top or last >= top + self.shown:
            self.move_to(first if first < top else min(first, last - self.shown + 1))

    def on_resize(self) -> None:
        if self._row_after_resize is not None and self.size.height <= self.shown:
            row, self._row_after_resize = self._row_after_resize, None
            self.scroll_to(y=row, animate=False, immediate=True)
        # Textual may have scrolled to leave no empty room at the end.
        self.scroll_target_y = self.scroll_y
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    # --------------------------------------------------------------------------------------------------------- search

    def find(self, text: str) -> None:
        self._sought = parse_query(text)
        self._search()
        top = self.hidden[0]
        self._match = next((place for place, match in enumerate(self.matches) if match[0].row >= top), 0)
        self.step(0)

    def _search(self) -> None:
        lines = [BlockLine(line.strip) for line in self._lines] if self.searches_painted else self._lines
        self.matches = matches_in(lines, self._sought) if self._sought is not None else []
        self._match = min(self._match, max(0, len(self.matches) - 1))
        self._spots = {}
        for number, match in enumerate(self.matches):
            for spot in match:
                self._spots.setdefault(spot.row, []).append((spot.start, spot.end, number))

    def step(self, steps: int) -> None:
        if self.matches:
            self._match = (self._match + steps) % len(self.matches)
            row = self.matches[self._match][0].row
            if not 0 <= row - self.hidden[0] < max(1, self.shown):
                self.move_to(row - self.shown // 3)
        self.refresh()

    @property
    def found(self) -> str:
        if self._sought is None:
            return ""
        return f"{self._match + 1:,} of {len(self.matches):,}" if self.matches else "not found"

    # ----------------------------------------------------------------------------------------------- painting, copying

    def render_line(self, y: int) -> Strip:
        place, width, base = y + self.scroll_offset.y, self.scrollable_content_region.width, self.rich_style
        if place >= self.row_count:
            return Strip.blank(width, base)
        palette = self.palette
        spans: list[StyledCells] = [
            (start, end, palette.match_current if number == self._match else palette.match)
            for start, end, number in self._spots.get(place, ())
        ]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(place)) is not None:
            spans.append((span[0], None if span[1] < 0 else span[1], palette.selection))
        return paint(self._lines[place].strip, width, base, spans).apply_offsets(0, place)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Source text of a selection: without margins and without the line breaks of wrapping."""
        pieces: list[str] = []
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.row_count - 1
        for place in range(max(0, first), min(last, self.row_count - 1) + 1):
            span = selection.get_span(place)
            if span is not None:
                line, (start, end) = self._lines[place], span
                pieces += [cut(line.text, start - line.indent, None if end < 0 else end - line.indent), line.joint]
        return ("".join(pieces[:-1]), "\n") if pieces else None

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


T = TypeVar("T")

LONG = 80_000
"""Characters of plain text that are laid out without delaying a key; longer text is laid out in a thread."""
LESS_KEYS = {"k": "up", "j": "down", "b": "pageup", " ": "pagedown", "g": "home", "G": "end"}
"""The same as in `less`."""
_MAX_ENTRY = 100_000
REFRESH_SECONDS = 0.5


class ReadingSheet(Sheet[T]):
    """A sheet with a scrolling body and an entry line, which also searches the body."""

    def __init__(self, title: str = "") -> None:
        super().__init__(title)
        self.searching = False
        """Whether the entry line is open for a search."""
        self._version = 0
        self._laid_out: dict[Hashable, tuple[int, list[BlockLine]]] = {}
        """Body lines by `layout_key`, with the version they were made for."""
        self._laying_out: set[Hashable] = set()
        self._lines_are_final = True
        """Whether the shown lines are the whole current body, not a placeholder or an older version."""

    @abstractmethod
    def body(self, width: int) -> list[BlockLine]:
        """Everything to read. Called again for a new width or after `update`; may run in a thread."""

    @property
    def size_of_body(self) -> int:
        """Approximate layout cost in characters of plain text; a diff or Markdown costs `PAINTED` times as much."""
        return 0

    @property
    def layout_key(self) -> Hashable:
        """Value on which the lines of the body depend."""
        return self.body_width

    @property
    def body_width(self) -> int:
        return max(1, self.area.width - 2 * MARGIN - 1)  # one column is reserved for the scrollbar

    @property
    def scroller(self) -> Scroller:
        return self.query_one(Scroller)

    def parts(self) -> ComposeResult:
        yield Scroller(self.palette, id="body")
        entry = EntryLine("/", "search", _MAX_ENTRY)
        entry.display = False
        yield entry

    def update(self) -> None:
        """Lay out the body again, because its content has changed."""
        self._version += 1
        self.settle()

    def set_palette(self, palette: Palette) -> None:
        self._version += 1
        super().set_palette(palette)

    def body_lines(self) -> list[BlockLine]:
        key, width = self.layout_key, self.body_width
        version, lines = self._laid_out.get(key, (-1, []))
        if version != self._version and self.size_of_body <= LONG:
            version, lines = self._laid_out[key] = self._version, self.body(width)
        self._lines_are_final = version == self._version
        if not self._lines_are_final and key not in self._laying_out:
            self._laying_out.add(key)
            self._lay_out_in_thread(key, width)
        is_missing = version < 0
        return wrap([("Laying out a long text …", self.palette.muted)], width) if is_missing else lines

    @work(group="layout")
    async def _lay_out_in_thread(self, key: Hashable, width: int) -> None:
        version = -1
        while version != self._version:
            version = self._version
            self._laid_out[key] = (version, await asyncio.to_thread(self.body, width))
        self._laying_out.discard(key)
        self.settle()

    def open_entry(self, sign: str, text: str, placeholder: str) -> None:
        entry = self.entry
        entry.sign, entry.placeholder = sign, placeholder
        entry.line.clear()
        entry.line.insert(text)
        entry.display = True
        self.settle()

    def close_entry(self) -> None:
        self.entry.line.clear()
        self.entry.display = False
        self.settle()

    def begin_search(self, text: str = "") -> None:
        self.searching = True
        self.open_entry("/", text, "search")
        self.find_typed()

    def end_search(self) -> None:
        self.searching = False
        self.scroller.find("")
        self.close_entry()

    def find_typed(self) -> None:
        self.scroller.find(self.entry.line.text)
        self.paint()

    def paint(self) -> None:
        super().paint()
        self.scroller.palette = self.palette
        self.scroller.refresh()


class Page(ReadingSheet[T]):
    """A page to read. Letters are keys; `/` starts a search, Esc ends it, Esc again closes the page."""

    share = 0.9

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._typing = False
        """Whether keys go to the search line; the line stays open while `n` and `N` step through the matches."""

    def lines(self, width: int) -> Sequence[Runs]:
        """Content of the page for this width; longer lines are wrapped. Must be safe text."""
        raise NotImplementedError

    def body(self, width: int) -> list[BlockLine]:
        return [row for line in self.lines(width) for row in wrap(line, width)]

    def lay_out(self, width: int, room: int) -> None:
        room -= self.searching
        lines = self.body_lines()
        self.scroller.show(lines, max(1, min(max(len(lines), self.min_rows - self.searching), room)))

    def paint(self) -> None:
        super().paint()
        self.entry.repaint(self.palette, active=self._typing)

    def keys(self) -> Keys:
        if self._typing:
            return [("Enter", "search"), ("Esc", "end search")]
        if self.searching:
            return [("/", "change"), ("n N", "next, previous"), ("Esc", "end search")]
        return [("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")]

    def asides(self) -> Sequence[str]:
        return (self.scroller.found,)

    def press(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self.back()
        elif not self._typing:
            return self.read_on(character or key)
        elif key == "enter":
            self._typing = False  # from now on `n` and `N` move between matches
            self.paint()
        elif not self.scroller.press(key):
            if not self.entry.line.press(key, character):
                return False
            self.find_typed()
        return True

    def back(self) -> None:
        self._typing = False
        self.end_search() if self.searching else self.leave()

    def read_on(self, key: str) -> bool:
        """Handle a key outside of the search line; `key` is the character of a key that prints one."""
        steps = {"n": 1, "enter": 1, "N": -1}.get(key, 0)
        if self.scroller.press(LESS_KEYS.get(key, key)):
            pass
        elif key in ("/", "ctrl+f"):
            self._typing = True
            self.begin_search(self.entry.line.text)
        elif key == "q":
            self.leave()
        elif steps and self.scroller.matches:
            self.scroller.step(steps)
            self.paint()
        else:
            return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self._typing:
            self.entry.line.insert(event.text[:400])
            self.find_typed()


class LivePage(Page[T]):
    """A page whose content changes while it is open; it follows its end unless scrolled up."""

    def has_changed(self) -> bool:
        """Update the content; called twice a second."""
        raise NotImplementedError

    def on_mount(self) -> None:  # Textual also calls `Sheet.on_mount`, after this one
        self.has_changed()
        self.set_interval(REFRESH_SECONDS, self.refresh_content)
        self.call_after_refresh(self._go_to_end)

    def refresh_content(self) -> None:
        if self.is_open and self.has_changed():
            follows = not self.scroller.hidden[1]
            self.update()
            if follows:
                self.call_after_refresh(self._go_to_end)  # after the new height is known

    def _go_to_end(self) -> None:
        if self.is_open:
            self.scroller.move_to(self.scroller.row_count)


class TextPage(Page[None]):
    """Shows any text. `lines` may contain line breaks and control characters: they are made safe here."""

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        super().__init__(title)
        texts = safe_block("\n".join(lines))
        self._texts = texts if any(texts) else ["(empty)"]

    @property
    def size_of_body(self) -> int:
        return sum(map(len, self._texts))

    def lines(self, width: int) -> Sequence[Runs]:
        return [[(text, self.palette.text)] for text in self._texts]


class TablesPage(Page[None]):
    """Shows paragraphs and tables made for the width of the page: the first paragraph is text, the others are tables
    with a header."""

    def __init__(self, title: str, parts: Callable[[int], Sequence[str]]) -> None:
        super().__init__(title)
        self._parts = parts

    def lines(self, width: int) -> Sequence[Runs]:
        text, *tables = (safe_block(part) for part in self._parts(width))
        rows: list[Runs] = [[(line, self.palette.text)] for line in text]
        for header, *lines in tables:
            rows += [[], [(header, self.palette.muted)], *([(line, self.palette.text)] for line in lines)]
        return rows
