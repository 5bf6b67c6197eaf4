"""Text of sheets: made safe, cut, aligned and painted, and the widgets that show and edit a row of it.

All text may come from a model, a file or a repository, so it passes through `safe` once. After that it is one line
without control sequences and without characters that reorder the text beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from agentcli.core.text.format import counted, plural
from agentcli.core.text.plaintext import TAB, plain_line, plain_text, show_command
from agentcli.tui.blocks.base import Run, wrap
from agentcli.tui.blocks.rows import Runs, cut, cut_runs, join_runs, size
from agentcli.tui.glyphs import EVEN, clean, glyphs
from agentcli.tui.theme.palette import Palette

_BREAKS = re.compile("[\\t\\n\\u2028\\u2029]")
MAX_LENGTH = 600


def safe(text: str, limit: int = MAX_LENGTH) -> str:
    """One row without control sequences and reordering, as wide as on the screen. Blanks are kept, for columns."""
    text = _paint_line(_BREAKS.sub(" ", plain_text(text[: limit * 2])))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def safe_block(text: str) -> list[str]:
    lines = plain_text(text).replace("\u2028", "\n").replace("\u2029", "\n").split("\n")
    if "\t" in text:
        lines = [line.expandtabs(TAB) for line in lines]
    return lines if EVEN(text.replace("\n", "")) is None else [_paint_line(line) for line in lines]


def _paint_line(line: str) -> str:
    return line if EVEN(line) is None else "".join([shown for _source, shown, _width in glyphs(clean(line))])


def pad(text: str, width: int) -> str:
    return set_cell_size(cut(text, width), max(0, width))


def paint_runs(runs: Sequence[Run], width: int, base: Style) -> Strip:
    """One row of exactly `width` cells. `base` provides what the runs do not set, mainly the background."""
    segments = [Segment(text, base + style) for text, style in cut_runs(runs, width) if text]
    return Strip(segments).adjust_cell_length(width, base)


def mark_places(text: str, places: Sequence[int], style: Style, mark: Style) -> Runs:
    if not places:
        return [(text, style)]
    chosen = frozenset(places)
    pieces: list[tuple[bool, str]] = []
    place = 0
    # Never split a glyph: its parts would be wider than the whole.
    for source, _shown, _width in glyphs(text):
        pieces.append((not chosen.isdisjoint(range(place, place + len(source))), source))
        place += len(source)
    groups = groupby(pieces, key=lambda piece: piece[0])
    return [("".join([piece for _hit, piece in group]), style + mark if hit else style) for hit, group in groups]


def wrap_rows(runs: Sequence[Run], width: int, most: int) -> list[Runs]:
    """Word-wrap to at most `most` rows, with an ellipsis in the last one if there is more."""
    room = max(1, width)
    return first_rows([runs_of(line.strip) for line in wrap(runs, room)], most, room)


def runs_of(strip: Strip) -> Runs:
    return [(part.text, part.style or Style.null()) for part in strip]


def first_rows(rows: list[Runs], most: int, width: int = 10**6) -> list[Runs]:
    """At most `most` rows; if some are left out, the last one ends with an ellipsis."""
    if len(rows) <= most or most <= 0:
        return rows[: max(0, most)]
    last = rows[most - 1]
    if last and last[-1][0].endswith("…"):
        return rows[:most]
    style = last[-1][1] if last else Style.null()
    return [*rows[: most - 1], cut_runs([*last, ("…", style)], width)]


def keys_row(keys: Sequence[tuple[str, str]], width: int, key: Style, text: Style) -> Runs:
    """Row of keys, `Enter choose · Esc back`. Drops entries from the front until they fit, so that Esc stays."""
    kept = list(keys)
    while kept:
        row = join_runs(([(name, key), (f" {word}", text)] for name, word in kept), (" · ", text))
        if size(row) <= width or len(kept) == 1:
            return row
        kept.pop(0)
    return []


def rule(title: str, asides: Iterable[str], width: int, palette: Palette, line: Style) -> Runs:
    """A rule with a title, and at its end the first of the asides that fits."""
    title = cut(title, max(1, width - 6))
    room = width - cell_len(title) - 10
    aside = next((text for text in asides if text and cell_len(text) <= room), "")
    rest = width - cell_len(title) - 5 - (cell_len(aside) + 3 if aside else 0)
    runs: Runs = [("─── ", line), (title, palette.accent + palette.strong), (f" {'─' * max(1, rest)}", line)]
    return [*runs, (f" {aside} ", palette.muted), ("─", line)] if aside else runs


def tab_row(tabs: Sequence[Run], current: int, width: int) -> Runs:
    """Clickable tabs in a row, cropped at the left as far as needed to show the current one."""
    segments = [Segment(" ")]
    for text, style in tabs:
        segments += [Segment(f" {text} ", style), Segment(" ")]
    first = max(0, sum(segment.cell_length for segment in segments[: 2 * current + 2]) - width)
    return runs_of(Strip(segments).crop(first, first + width))


def draft_rows(text: str, width: int, palette: Palette) -> list[Runs]:
    """The end of the last line of an unfinished prompt; no row if there is none."""
    if not text:
        return []
    *before, last = plain_text(text).split("\n")
    more = f" (+{counted(len(before), 'line')})" if before else ""
    room = max(1, width - 5 - cell_len(more))
    end = one_line(last[-width:])
    while cell_len(end) > room:
        end = end[1:]
    last = end if len(end) == len(last) else f"…{end[1:]}"
    return [[(" ❯ ", palette.muted), (last, palette.text), (more, palette.muted)]]


def more_row(above: int, below: int, width: int, palette: Palette, *, locked: bool = False) -> Runs:
    """The rule below a body that is not fully visible: the user must know of the rest before approving it. `locked`: it
    has to be read to its end first."""
    more = f"↓ {below} more"
    if locked and not below:
        texts = ["Enlarge the window to allow"]  # there is no room for a single line
    elif locked:
        texts = [f"{more} {plural(below, 'line')}: scroll to the end to allow", f"{more}: PgDn or End to allow"]
        texts += [f"{more}: PgDn, End", f"↓ {below} · End"]
    else:
        few = " · ".join(filter(None, (f"↑ {above} above" if above else "", more if below else "")))
        # If there is little room, drop the noun first, then the keys.
        texts = [*([f"{few} {plural(below, 'line')} · PgUp PgDn"] if below else []), f"{few} · PgUp PgDn", few]
    text = next((text for text in texts if cell_len(text) <= width - 6), texts[-1])
    line, style = palette.faint, palette.warning if below or locked else palette.muted
    return [("───", line), (f" {text} ", style), ("─" * max(0, width - 5 - cell_len(text)), line)]


def one_line(text: str) -> str:
    """Untrusted text as one row, with hidden characters made visible."""
    return show_command(plain_line(text))


class StyledRows(Widget, can_focus=False):
    """Rows of runs. A click posts the meta data of the style under the pointer."""

    DEFAULT_CSS = "StyledRows { width: 1fr; height: 1; }"
    ALLOW_SELECT = False

    @dataclass
    class Clicked(Message):
        meta: dict[str, object]

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.rows: list[Sequence[Run]] = []

    def show(self, rows: Iterable[Sequence[Run]], height: int | None = None) -> None:
        if height is not None:
            self.styles.height = height
            self.display = bool(height)
        if (content := list(rows)) != self.rows:
            self.rows = content
            self.refresh()

    def render_line(self, y: int) -> Strip:
        return paint_runs(self.rows[y] if y < len(self.rows) else (), self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        if event.style.meta:
            self.post_message(self.Clicked(dict(event.style.meta)))


class LineEdit:
    """Single-line text entry, for searches and values. Pure: keys in, text and runs out."""

    def __init__(self, limit: int = 200) -> None:
        self.text = ""
        self.cursor = 0
        self.masked = False
        self._limit = limit

    def clear(self) -> None:
        self.text, self.cursor = "", 0

    def insert(self, text: str) -> None:
        """Insert typed or pasted text: line breaks become blanks, control sequences are removed."""
        text = safe(text, self._limit)[: max(0, self._limit - len(self.text))]
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def press(self, key: str, character: str | None) -> bool:
        """Handle a key; return whether it has an effect here."""
        if find_place := _DELETING.get(key):
            start, end = sorted((self.cursor, find_place(self)))
            self.text, self.cursor = self.text[:start] + self.text[end:], start
        elif find_place := _MOVING.get(key):
            self.cursor = find_place(self)
        elif character and character.isprintable():
            self.insert(character)
        else:
            return False
        return True

    @property
    def _shown(self) -> str:
        return "•" * len(self.text) if self.masked else self.text

    def _places(self) -> list[int]:
        """Possible cursor positions, never inside a glyph."""
        return [0, *accumulate(len(source) for source, _shown, _width in glyphs(self._shown))]

    def go_left(self) -> int:
        return max((place for place in self._places() if place < self.cursor), default=0)

    def go_right(self) -> int:
        return min((place for place in self._places() if place > self.cursor), default=len(self.text))

    def go_word_left(self) -> int:
        return self.text[: self.cursor].rstrip().rfind(" ") + 1

    def go_word_right(self) -> int:
        rest = self.text[self.cursor :]
        blank = rest.find(" ", len(rest) - len(rest.lstrip()))
        return len(self.text) if blank < 0 else self.cursor + blank

    def row(self, width: int, palette: Palette, placeholder: str, active: bool = True) -> tuple[Runs, int]:
        """The visible part, and the cell of the cursor in it."""
        cursor = Style(reverse=active)
        if not self.text:
            return [(placeholder[:1] or " ", palette.muted + cursor), (placeholder[1:], palette.muted)], 0
        text, end = self._shown, self.go_right()
        before = text[self._first_shown(text, max(1, width - 2)) : self.cursor]
        under = text[self.cursor : end] or " "
        return [(before, palette.text), (under, palette.text + cursor), (text[end:], palette.text)], cell_len(before)

    def _first_shown(self, text: str, room: int) -> int:
        """First visible character, so that the cursor fits into the room."""
        if EVEN(text) is None:
            return max(0, self.cursor - room)
        return next(place for place in self._places() if cell_len(text[place : self.cursor]) <= room)


_Place = Callable[[LineEdit], int]
_DELETING: Mapping[str, _Place] = {
    **dict.fromkeys(("backspace", "ctrl+h"), LineEdit.go_left),
    **dict.fromkeys(("delete", "ctrl+d"), LineEdit.go_right),
    **dict.fromkeys(("ctrl+w", "alt+backspace", "ctrl+backspace"), LineEdit.go_word_left),
    "ctrl+u": lambda _line: 0,
    "ctrl+k": lambda line: len(line.text),
}
_MOVING: Mapping[str, _Place] = {
    **dict.fromkeys(("left", "ctrl+b"), LineEdit.go_left),
    **dict.fromkeys(("right", "ctrl+f"), LineEdit.go_right),
    **dict.fromkeys(("ctrl+left", "alt+left", "alt+b"), LineEdit.go_word_left),
    **dict.fromkeys(("ctrl+right", "alt+right", "alt+f"), LineEdit.go_word_right),
    **dict.fromkeys(("ctrl+a", "home"), lambda _line: 0),
    **dict.fromkeys(("ctrl+e", "end"), lambda line: len(line.text)),
}


class EntryLine(StyledRows):
    """A text entry with a sign before it. Not Textual's `Input`, which needs the focus: its letters and the keys of the
    sheet would arrive through two queues, Enter before the letters. It also lays out the screen for each letter."""

    def __init__(self, sign: str, placeholder: str, limit: int = 200) -> None:
        super().__init__(id="entry")
        self.line = LineEdit(limit)
        self.sign = sign
        self.placeholder = placeholder
        self._cursor: Offset | None = None

    @property
    def cursor_cell(self) -> Offset | None:
        """The cell of its cursor on the screen; None while it is hidden or inactive."""
        return self.region.offset + self._cursor if self.display and self._cursor is not None else None

    def repaint(self, palette: Palette, active: bool = True) -> None:
        sign = f" {self.sign} "
        # Not its own width, which is known only once it was laid out.
        runs, column = self.line.row(self.screen.size.width - cell_len(sign) - 1, palette, self.placeholder, active)
        self.show([[(sign, palette.accent), *runs]])
        self._cursor = Offset(cell_len(sign) + column, 0) if active else None
