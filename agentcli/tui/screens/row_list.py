"""Rows of a list, the search in them, and the widget that shows them.

Each word of a query must match a row: fuzzily in its label, or literally in its detail or group.

The widget owns the cursor and the columns, and uses the line API: ten thousand rows cost no more than the visible ones.
Textual's `OptionList` took 400 ms to show 5,000 options and as long for each letter of a search. It takes no focus: the
screen around it receives the keys and calls its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import best_match, fold_case, is_case_sensitive
from agentcli.tui.blocks.rows import Runs, cut
from agentcli.tui.screens.text import mark_places, pad, paint_runs, safe
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")

_GAP = "  "
MOVES = frozenset({"up", "ctrl+p", "down", "ctrl+n", "pageup", "pagedown", "home", "end"})
"""Keys that move the cursor."""
_BEFORE = 3
"""Cells before a row: margin, cursor sign and a blank."""
_BOLD = Style(bold=True)
_FOUND = Style(bold=True, underline=True)
_IN_DETAIL = 8
"""Score per letter matched outside of the label: less than for a match in the label."""


@frozen
class Row(Generic[T]):
    value: T
    label: str
    detail: str = ""
    mark: str = ""
    group: str = ""
    """Group name. Rows of a group are consecutive; the name is shown above them while there is no query."""
    disabled: str = ""
    """Why it cannot be chosen; shown instead of the detail."""


@dataclass(frozen=True, slots=True)
class RowEntry(Generic[T]):
    """A row with text that is safe to show, and its text normalised for searching."""

    row: Row[T]
    label: str
    detail: str
    folded_label: str
    folded_rest: str


@dataclass(frozen=True, slots=True)
class FoundEntry(Generic[T]):
    """A shown entry, and the positions of its matched characters."""

    entry: RowEntry[T]
    label_places: tuple[int, ...] = ()
    detail_places: tuple[int, ...] = ()


def entries_of(rows: Iterable[Row[T]]) -> list[RowEntry[T]]:
    made = []
    for row in rows:
        label, detail = safe(row.label), safe(row.disabled or row.detail)
        made.append(RowEntry(row, label, detail, fold_case(label), fold_case(f"{detail}\n{row.group}")))
    return made


def find(entries: Sequence[RowEntry[T]], query: str) -> list[FoundEntry[T]]:
    """Entries that match a query, the best first; all entries in their order if the query is empty."""
    words, exact = query.split(), is_case_sensitive(query)
    if not words:
        return [FoundEntry(entry) for entry in entries]
    hits = filter(None, (_match(entry, words, exact) for entry in entries))
    return [found for _score, found in sorted(hits, key=lambda hit: -hit[0])]


def _match(entry: RowEntry[T], words: Sequence[str], exact: bool) -> tuple[int, FoundEntry[T]] | None:
    label = entry.label if exact else entry.folded_label
    rest = f"{entry.detail}\n{entry.row.group}" if exact else entry.folded_rest
    score = 0
    in_label: tuple[int, ...] = ()
    in_detail: tuple[int, ...] = ()
    for word in words:
        match = best_match(word, entry.label, label)
        # Letters scattered over a long label match almost anything, so they do not count.
        if match is not None and match.positions[-1] - match.positions[0] < 3 * len(word) + 4:
            score += match.score
            in_label += match.positions
            continue
        place = rest.find(word)
        if place < 0:
            return None
        score += _IN_DETAIL * len(word)
        if place < len(entry.detail):
            in_detail += tuple(range(place, place + len(word)))
    return score, FoundEntry(entry, in_label, in_detail)


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
        self.refresh()
        self._reveal()

    @property
    def marked_cell(self) -> Offset:
        """Screen cell of the sign before the row under the cursor."""
        line = self._line_of[self._cursor] - self.scroll_offset.y if self._found else 0
        return self.region.offset + Offset(_BEFORE - 2, line)

    @property
    def entry(self) -> RowEntry[T] | None:
        return self._found[self._cursor].entry if self._found else None

    @property
    def row(self) -> Row[T] | None:
        return self.entry.row if self.entry is not None else None

    def columns(self, width: int) -> tuple[int, int]:
        """Widths of the label and detail columns; the detail gets half of the room, if it needs that."""
        room = max(1, width - _BEFORE - 1 - (self._mark_width + 1 if self._mark_width else 0))
        label = min(self._label_width, self._most_label, room)
        if not self._detail_width:
            return label, 0
        room = max(0, room - len(_GAP))
        detail = min(self._detail_width, max(room - label, room // 2))
        return max(1, min(label, room - detail)), detail

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

    def press(self, key: str) -> bool:
        """Move the cursor, if the key does that. A single step beyond an end wraps around."""
        here, count, page = self._cursor, max(1, len(self._found)), max(1, self.size.height - 1)
        up, down = (here - 1) % count, (here + 1) % count
        places = {"up": up, "ctrl+p": up, "down": down, "ctrl+n": down, "home": 0, "end": count - 1}
        places |= {"pageup": here - page, "pagedown": here + page}
        if key in places:
            self.move_to(places[key])
        return key in places

    def move_to(self, place: int) -> None:
        before, self._cursor = self._cursor, max(0, min(place, len(self._found) - 1))
        self._reveal()
        if self._cursor != before:
            self.refresh()
            self._moved()

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
            return paint_runs(said, width, base)
        number = self._lines[line]
        if isinstance(number, str):
            return paint_runs([(" " + number, self.palette.muted + _BOLD)], width, base)
        chosen = number == self._cursor
        runs = self._runs(self._found[number], width, chosen)
        if not chosen:
            return paint_runs(runs, width, base)
        if self.palette.selection.reverse:  # reversed colours would look like patches of background
            runs = [(text, style.without_color) for text, style in runs]
        return paint_runs(runs, width, base + self.palette.selection)

    def _runs(self, found: FoundEntry[T], width: int, chosen: bool) -> Runs:
        palette, entry = self.palette, found.entry
        label_width, detail_width = self.columns(width)
        runs: Runs = [(" ❯ " if chosen else "   ", palette.accent + _BOLD)]
        if self._mark_width:
            runs.append((pad(safe(entry.row.mark), self._mark_width) + " ", palette.accent))
        style = palette.muted if entry.row.disabled else palette.text + _BOLD if chosen else palette.text
        runs += mark_places(pad(entry.label, label_width), found.label_places, style, _FOUND + _hue(palette))
        if entry.detail and detail_width > 0:
            # A reason may be longer than the other details: it gets the rest of the row.
            room = max(detail_width, width - self._before_detail(label_width) - 1)
            text = _cut_facts(entry.detail, room)
            runs.append((_GAP, palette.muted))
            runs += mark_places(text, found.detail_places, palette.muted, _FOUND + _hue(palette))
        return runs


def _hue(palette: Palette) -> Style:
    """Colour of matched letters: the accent's colour, without its other attributes."""
    return Style(color=palette.accent.color)


def _cut_facts(detail: str, room: int) -> str:
    """Leave out the last facts of a detail (`1 file · $0.01 · just now`) that do not fit. The first one is cut."""
    while cell_len(detail) > room and (end := max(detail.rfind(" · "), detail.rfind("  "))) > 0:
        detail = detail[:end].rstrip()
    return cut(detail, room)
