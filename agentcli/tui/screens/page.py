"""Pages to read: they scroll, and `/` searches in them.

The text is wrapped at the width there is; only the rows on the screen are painted, so a page may have very many lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Input

from agentcli.core.fuzzy import folded, is_case_sensitive
from agentcli.tui.blocks.glyphs import EVEN, glyphs
from agentcli.tui.palette import Palette
from agentcli.tui.screens.frame import MARGIN, Lines, Sheet
from agentcli.tui.screens.runs import Runs, painted, safe_block

T = TypeVar("T")

Span = tuple[int, int, int]
"""A line, and where in it something begins and ends."""
_MOST_MATCHES = 10_000


def rows_of(text: str, width: int) -> Iterable[tuple[int, int]]:
    """Where the rows of a line begin and end, wrapped at blanks; a word that is wider than a row is cut."""
    width = max(1, width)
    if len(text) <= width and EVEN(text) is None:
        return ((0, len(text)),)
    return _wrapped_rows(text, width)


def _wrapped_rows(text: str, width: int) -> Iterable[tuple[int, int]]:
    ends, cells = _cells(text)
    start, first = 0, 0
    while True:
        # The last glyph that ends within the width; at least one, however wide it is.
        last = max(first, bisect_right(cells, (cells[first - 1] if first else 0) + width) - 1) if cells else 0
        if last >= len(ends) - 1:
            yield start, len(text)
            return
        end = ends[last]
        blank = text.rfind(" ", start + 1, end + 1)
        if blank > start:
            yield start, blank
            start = blank + 1
        else:
            yield start, end
            start = end
        first = bisect_right(ends, start)


def _cells(text: str) -> tuple[Sequence[int], Sequence[int]]:
    """For each glyph where it ends, in characters and in cells."""
    if EVEN(text) is None:
        return range(1, len(text) + 1), range(1, len(text) + 1)
    ends: list[int] = []
    cells: list[int] = []
    place = width = 0
    for source, _shown, size in glyphs(text):
        place += len(source)
        width += size
        ends.append(place)
        cells.append(width)
    return ends, cells


class Pager(ScrollView, can_focus=False):
    """Styled lines, wrapped; with marks where something was found."""

    DEFAULT_CSS = """
    Pager { width: 1fr; height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """

    def __init__(self, palette: Palette, id: str) -> None:
        super().__init__(id=id)
        self.palette = palette
        self.matches: list[Span] = []
        self.match = 0
        self._lines: list[Runs] = []
        self._texts: list[str] = []
        self._rows: list[Span] = []
        self._width = 0
        self._matches_of: dict[int, list[tuple[int, int, bool]]] = {}

    def set_lines(self, lines: Iterable[Runs], width: int) -> None:
        """Lines that are safe to show, and the width they have."""
        self._lines = list(lines)
        self._texts = ["".join([text for text, _style in line]) for line in self._lines]
        self._width = max(1, width - 2 * MARGIN)
        self._rows = [
            (number, start, end) for number, text in enumerate(self._texts) for start, end in rows_of(text, self._width)
        ]
        self.virtual_size = Size(0, len(self._rows))
        self.refresh()

    @property
    def row_count(self) -> int:
        return len(self._rows)

    # ---------------------------------------------------------------------------------------------------------- search

    def find(self, query: str) -> None:
        """Mark everything that is like the query and show the first from here on."""
        self.matches = list(self._found(query)) if query else []
        top = self._rows[self.scroll_offset.y][:2] if self._rows else (0, 0)
        here = [number for number, match in enumerate(self.matches) if match[:2] >= top]
        self.match = here[0] if here else 0
        self._mark()

    def _found(self, query: str) -> Iterable[Span]:
        exact = is_case_sensitive(query)
        left = _MOST_MATCHES
        for number, text in enumerate(self._texts):
            compared = text if exact else folded(text)
            place = compared.find(query)
            while place >= 0 and left:
                yield number, place, place + len(query)
                left -= 1
                place = compared.find(query, place + len(query))

    def step(self, steps: int) -> None:
        if self.matches:
            self.match = (self.match + steps) % len(self.matches)
            self._mark()

    def _mark(self) -> None:
        self._matches_of = {}
        for number, (line, start, end) in enumerate(self.matches):
            self._matches_of.setdefault(line, []).append((start, end, number == self.match))
        if self.matches:
            line, start, _end = self.matches[self.match]
            row = bisect_right(self._rows, (line, start, len(self._texts[line]) + 1)) - 1
            top = self.scroll_offset.y
            if not top <= row < top + max(1, self.size.height):
                self.scroll_to(y=max(0, row - self.size.height // 3), animate=False)
        self.refresh()

    # -------------------------------------------------------------------------------------------------------- painting

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        place = y + self.scroll_offset.y
        if place >= len(self._rows):
            return Strip.blank(width, base)
        runs = self._row_runs(place)
        selection = self.text_selection
        span = selection.get_span(place) if selection is not None else None
        if span is not None:
            start, end = span
            length = sum(len(text) for text, _style in runs)
            end = length if end == -1 else end
            chosen = [(text, style + self.palette.selection) for text, style in sliced(runs, start, end)]
            runs = [*sliced(runs, 0, start), *chosen, *sliced(runs, end, length)]
        strip = painted(runs, width - MARGIN, base).apply_offsets(0, place)
        return Strip([*Strip.blank(MARGIN, base), *strip])

    def _row_runs(self, place: int) -> Runs:
        line, start, end = self._rows[place]
        hits = self._matches_of.get(line)
        if not hits:
            return sliced(self._lines[line], start, end)
        palette = self.palette
        runs: Runs = []
        at = start
        for begin, stop, current in hits:
            if stop <= at or begin >= end:
                continue
            runs += sliced(self._lines[line], at, max(at, begin))
            style = palette.match_current if current else palette.match
            runs += [(text, style) for text, _style in sliced(self._lines[line], max(at, begin), min(stop, end))]
            at = min(stop, end)
        return runs + sliced(self._lines[line], at, end)

    # ------------------------------------------------------------------------------------------------------- selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text of the lines, not of the rows they were wrapped into."""
        parts: list[str] = []
        for place, (line, start, end) in enumerate(self._rows):
            span = selection.get_span(place)
            if span is None:
                continue
            begin, stop = span
            text = self._texts[line]
            piece = text[start:end][begin : None if stop == -1 else stop]
            last = end >= len(text)
            parts.append(piece + ("\n" if last else text[end : self._rows[place + 1][1]]))
        return ("".join(parts).rstrip("\n"), "\n") if parts else None

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def sliced(runs: Runs, start: int, end: int) -> Runs:
    """The characters from `start` to `end` of a line."""
    found: Runs = []
    place = 0
    for text, style in runs:
        if place >= end:
            break
        if place + len(text) > start:
            found.append((text[max(0, start - place) : end - place], style))
        place += len(text)
    return found


class Page(Sheet[T]):
    """Something to read. Letters are keys; `/` begins a search, Esc ends it, Esc again closes the page."""

    DEFAULT_CSS = """
    Page #search { height: 1; padding: 0 1 0 0; }
    Page #search Lines { width: 3; height: 1; }
    Page Input, Page Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: transparent;
        background-tint: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_by(-1)", show=False, priority=True),
        Binding("down", "scroll_by(1)", show=False, priority=True),
        Binding("k", "scroll_by(-1)", show=False),
        Binding("j", "scroll_by(1)", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("space", "page(1)", show=False),
        Binding("b", "page(-1)", show=False),
        Binding("home", "edge(-1)", show=False, priority=True),
        Binding("end", "edge(1)", show=False, priority=True),
        Binding("g", "edge(-1)", show=False),
        Binding("G", "edge(1)", show=False),
        Binding("slash,ctrl+f", "search", show=False),
        Binding("enter", "found(1)", show=False, priority=True),
        Binding("n", "found(1)", show=False),
        Binding("N", "found(-1)", show=False),
        Binding("q", "leave", show=False),
    ]
    share = 0.9

    def lines(self, width: int) -> Sequence[Runs]:
        """Everything on the page, made for this width; what is longer is wrapped. Must be safe text."""
        raise NotImplementedError

    def parts(self) -> ComposeResult:
        yield Pager(self.palette, id="pager")
        with Horizontal(id="search"):
            yield Lines(id="sign")
            yield Input(placeholder="search", compact=True, max_length=200)

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    @property
    def searching(self) -> bool:
        return bool(self.query_one("#search").display)

    def on_mount(self) -> None:  # Textual calls that of `Sheet` after this one
        self.query_one(Input).cursor_blink = False
        self.query_one("#search").display = False

    def lay_out(self, width: int, room: int) -> None:
        search = 1 if self.searching else 0
        pager = self.pager
        pager.set_lines(self.lines(width - 2 * MARGIN), width - 1)
        pager.styles.height = max(1, min(pager.row_count, room - search))

    def paint(self) -> None:
        super().paint()
        self.pager.palette = self.palette
        self.query_one("#sign", Lines).show([[(" / ", self.palette.accent)]])
        self.pager.refresh()

    def set_palette(self, palette: Palette) -> None:
        self.palette = palette
        self.settle()

    def keys(self) -> list[tuple[str, str]]:
        if self.searching:
            return [("n N", "next, previous"), ("Enter", "next"), ("Esc", "end search")]
        return [("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")]

    def aside(self) -> str:
        if not self.searching or not self.query_one(Input).value:
            return ""
        pager = self.pager
        return f"{pager.match + 1:,} of {len(pager.matches):,}" if pager.matches else "not found"

    # ------------------------------------------------------------------------------------------------------------ keys

    def action_scroll_by(self, rows: int) -> None:
        self.pager.scroll_to(y=self.pager.scroll_offset.y + rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_scroll_by(pages * max(1, self.pager.size.height - 1))

    def action_edge(self, direction: int) -> None:
        self.action_scroll_by(direction * self.pager.row_count)

    def action_search(self) -> None:
        self.query_one("#search").display = True
        self.query_one(Input).focus()
        self.settle()

    def action_found(self, steps: int) -> None:
        if self.searching:
            self.set_focus(None)  # from here on `n` and `N` go on
            self.pager.step(steps if self.pager.matches else 0)
            self.paint()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.pager.find(event.value)
        self.paint()

    def action_leave(self) -> None:
        if not self.searching:
            self.dismiss(None)
            return
        self.set_focus(None)
        self.query_one(Input).value = ""
        self.query_one("#search").display = False
        self.settle()


class TextPage(Page[None]):
    """Any text, as it is. `lines` may hold line breaks and whatever else: it is made safe here."""

    def __init__(self, title: str, lines: Iterable[str], palette: Palette | None = None) -> None:
        super().__init__(title, palette)
        self._text = [part for line in lines for part in safe_block(line)] or ["(empty)"]

    def lines(self, width: int) -> Sequence[Runs]:
        style = self.palette.text
        return [[(line, style)] for line in self._text]
