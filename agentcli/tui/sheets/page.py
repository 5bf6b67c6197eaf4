"""Pages to read: they scroll, and `/` searches in them.

The text is wrapped at the width there is; only the rows on the screen are painted, so a page may have very many lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar, overload

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from agentcli.core.fuzzy import folded, is_case_sensitive
from agentcli.tui.blocks.glyphs import EVEN, glyphs
from agentcli.tui.sheets.frame import MARGIN, SearchLine, Sheet
from agentcli.tui.sheets.leaving import QuitWanted, is_exit
from agentcli.tui.sheets.runs import Runs, painted, safe_block
from agentcli.tui.theme.palette import Palette

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


class PlainLines(Sequence[Runs]):
    """Lines of one style, made when they are painted: of a long log hardly any are."""

    def __init__(self, texts: Sequence[str], style: Style) -> None:
        self.texts = texts
        self._style = style

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, place: int) -> Runs: ...
    @overload
    def __getitem__(self, place: slice) -> PlainLines: ...
    def __getitem__(self, place: int | slice) -> Runs | PlainLines:
        if isinstance(place, slice):
            return PlainLines(self.texts[place], self._style)
        return [(self.texts[place], self._style)]


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
        self._lines: Sequence[Runs] = ()
        self._texts: Sequence[str] = ()
        self._rows: list[Span] = []
        self._width = 0
        self._matches_of: dict[int, list[tuple[int, int, bool]]] = {}

    def set_lines(self, lines: Sequence[Runs], width: int) -> None:
        """Lines that are safe to show, and the width to wrap them at."""
        if lines is self._lines and width == self._width:
            return
        self._lines, self._width = lines, width
        if isinstance(lines, PlainLines):
            self._texts = lines.texts
        else:
            self._texts = ["".join([text for text, _style in line]) for line in lines]
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


def _scroll(pager: Pager, rows: int) -> None:
    pager.scroll_to(y=pager.scroll_offset.y + rows, animate=False)


_SCROLLS: Mapping[str, Callable[[Pager], None]] = {
    "up": lambda pager: _scroll(pager, -1),
    "down": lambda pager: _scroll(pager, 1),
    "pageup": lambda pager: _scroll(pager, 1 - max(2, pager.size.height)),
    "pagedown": lambda pager: _scroll(pager, max(2, pager.size.height) - 1),
    "home": lambda pager: _scroll(pager, -pager.row_count),
    "end": lambda pager: _scroll(pager, pager.row_count),
}
_LETTERS = MappingProxyType(
    {"k": "up", "j": "down", "b": "pageup", "space": "pagedown", "g": "home", "G": "end", "upper_g": "end"}
)
"""As in `less`."""


class Page(Sheet[T]):
    """Something to read. Letters are keys; `/` begins a search, Esc ends it, Esc again closes the page."""

    share = 0.9

    def __init__(self, title: str, palette: Palette | None = None) -> None:
        super().__init__(title, palette)
        self._typing = False
        """In the line for searching; it stays there while `n` and `N` go through what was found."""

    def lines(self, width: int) -> Sequence[Runs]:
        """Everything on the page, made for this width; what is longer is wrapped. Must be safe text."""
        raise NotImplementedError

    def parts(self) -> ComposeResult:
        yield Pager(self.palette, id="pager")
        yield SearchLine("/", "search")

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    @property
    def search_line(self) -> SearchLine:
        return self.query_one(SearchLine)

    @property
    def searching(self) -> bool:
        return bool(self.search_line.display)

    def on_mount(self) -> None:  # Textual calls that of `Sheet` after this one
        self.search_line.display = False

    def lay_out(self, width: int, room: int) -> None:
        search = 1 if self.searching else 0
        pager = self.pager
        inner = max(1, width - 2 * MARGIN - 1)  # one for the scrollbar, whether it is there or not
        pager.set_lines(self.lines(inner), inner)
        pager.styles.height = max(1, min(max(pager.row_count, self.least - search), room - search))

    def paint(self) -> None:
        super().paint()
        self.pager.palette = self.palette
        self.search_line.repaint(self.palette, active=self._typing)
        self.pager.refresh()

    def set_palette(self, palette: Palette) -> None:
        self.palette = palette
        self.settle()

    def keys(self) -> list[tuple[str, str]]:
        if self._typing:
            return [("Enter", "go on"), ("Esc", "end search")]
        if self.searching:
            return [("/", "change"), ("n N", "next, previous"), ("Esc", "end search")]
        return [("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")]

    def aside(self) -> str:
        if not self.searching or not self.search_line.line.text:
            return ""
        pager = self.pager
        return f"{pager.match + 1:,} of {len(pager.matches):,}" if pager.matches else "not found"

    # ------------------------------------------------------------------------------------------------------------ keys

    def press(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self._end_search() if self.searching else self.leave()
        elif self._typing and key == "enter" and is_exit(self.typed_text, bool(self.pager.matches)):
            self.post_message(QuitWanted())
        elif self._typing and key == "enter":
            self._typing = False  # from here on `n` and `N` go on
            self.paint()
        elif self._typing and key not in _SCROLLS:
            return self._edit(key, character)
        else:
            return self._read_on(key)
        return True

    def _read_on(self, key: str) -> bool:
        """Keys while nothing is typed."""
        steps = {"n": 1, "enter": 1, "N": -1, "upper_n": -1}.get(key, 0)
        key = _LETTERS.get(key, key)
        if key in _SCROLLS:
            _SCROLLS[key](self.pager)
        elif key in ("slash", "ctrl+f"):
            self.search_line.display = self._typing = True
            self.settle()
        elif key == "q":
            self.leave()
        elif steps and self.pager.matches:
            self.pager.step(steps)
            self.paint()
        else:
            return False
        return True

    def _edit(self, key: str, character: str | None) -> bool:
        if not self.search_line.line.press(key, character):
            return False
        self._find()
        return True

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self._typing:
            self.search_line.line.insert(event.text[:400])
            self._find()

    def _find(self) -> None:
        self.pager.find(self.search_line.line.text)
        self.paint()

    def _end_search(self) -> None:
        self._typing = False
        self.search_line.line.clear()
        self.search_line.display = False
        self.pager.find("")
        self.settle()


class TextPage(Page[None]):
    """Any text, as it is. `lines` may hold line breaks and whatever else: it is made safe here."""

    def __init__(self, title: str, lines: Iterable[str], palette: Palette | None = None) -> None:
        super().__init__(title, palette)
        text = safe_block("\n".join(lines))
        self._lines = PlainLines(text if any(text) else ["(empty)"], self.palette.text)

    def lines(self, width: int) -> Sequence[Runs]:
        return self._lines

    def set_palette(self, palette: Palette) -> None:
        self._lines = PlainLines(self._lines.texts, palette.text)
        super().set_palette(palette)
