"""The rows that a dialog is drawn with: fixed ones, and a body that scrolls. Knows nothing of what they say."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from agentcli.tui.blocks.base import Line
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.copying import cut
from agentcli.tui.transcript.painting import Span, paint


class Rows(Widget, can_focus=False):
    """Rows as they are. A click tells the meta data of the style under it."""

    DEFAULT_CSS = "Rows { width: 100%; height: 0; }"
    ALLOW_SELECT = False

    class Clicked(Message):
        def __init__(self, meta: dict[str, object]) -> None:
            super().__init__()
            self.meta = meta

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.strips: Sequence[Strip] = ()

    def show(self, strips: Sequence[Strip]) -> None:
        if len(strips) != len(self.strips):
            self.styles.height = len(strips)
        self.strips = strips
        self.refresh()

    def render_line(self, y: int) -> Strip:
        strip = self.strips[y] if y < len(self.strips) else Strip.blank(0)
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        if event.style.meta:
            self.post_message(self.Clicked(dict(event.style.meta)))


class ScrolledLines(ScrollView, can_focus=False):
    """Lines of which a part is shown. Its height is what it is told; the rest scrolls by wheel or `move`."""

    DEFAULT_CSS = """
    ScrolledLines {
        width: 100%; height: 0; padding: 0 0 0 1; background: $background;
        overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    """

    class Scrolled(Message):
        """Other lines are shown than before."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self.shown = 0
        self._sought = ""
        self._matches: list[tuple[int, int, int]] = []
        """Row, first cell, end."""
        self._match = 0
        self._match_styles = (Style.null(), Style.null())

    @property
    def count(self) -> int:
        return len(self._lines)

    @property
    def overflows(self) -> bool:
        return self.count > self.shown

    @property
    def hidden(self) -> tuple[int, int]:
        """Lines above and below what is shown."""
        top = min(round(self.scroll_y), max(0, self.count - self.shown))
        return top, max(0, self.count - self.shown - top)

    def show(self, lines: Sequence[Line], rows: int) -> None:
        if lines is not self._lines:
            self._lines = lines
            self._search()
        self.shown = rows
        self.styles.height = rows
        self.virtual_size = Size(max(1, self.size.width), len(lines))
        self.refresh()

    def move(self, rows: int) -> None:
        self.move_to(self.hidden[0] + rows)

    def move_to(self, row: int) -> None:
        top = max(0, min(row, self.count - self.shown))
        self.scroll_to(y=top, animate=False, immediate=True)
        self.post_message(self.Scrolled())

    def reveal(self, first: int, last: int) -> None:
        """Scroll no further than needed to show these rows, the first of them for certain."""
        top = self.hidden[0]
        if first < top or last >= top + self.shown:
            self.move_to(first if first < top else min(first, last - self.shown + 1))

    def on_resize(self) -> None:
        # Textual may have moved the lines so that no room is left empty.
        self.scroll_target_y = self.scroll_y
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    # ------------------------------------------------------------------------------------------------- search

    @property
    def has_matches(self) -> bool:
        return bool(self._matches)

    def find(self, text: str, palette: Palette) -> None:
        """Mark every place where a row has this text, and go to the first from here on. Nothing: mark none."""
        self._sought = text.casefold()
        self._match_styles = (palette.match, palette.match_current)
        self._search()
        top = self.hidden[0]
        self._match = next((place for place, match in enumerate(self._matches) if match[0] >= top), 0)
        self.step(0)

    def step(self, step: int) -> None:
        if self._matches:
            self._match = (self._match + step) % len(self._matches)
            row = self._matches[self._match][0]
            self.reveal(row, row)
        self.refresh()

    @property
    def found(self) -> str:
        """How many, in words."""
        if not self._sought:
            return ""
        return f"{self._match + 1} of {len(self._matches)}" if self._matches else "not found"

    def _search(self) -> None:
        self._matches = []
        self._match = 0
        for row, line in enumerate(self._lines if self._sought else ()):
            text = line.strip.text
            folded = text.casefold()
            if len(folded) != len(text):
                folded = text.lower() if len(text.lower()) == len(text) else text
            at = folded.find(self._sought)
            while at >= 0:
                start = cell_len(text[:at])
                end = at + len(self._sought)
                self._matches.append((row, start, start + cell_len(text[at:end])))
                at = folded.find(self._sought, end)

    # ----------------------------------------------------------------------------------- painting and copying

    def render_line(self, y: int) -> Strip:
        row = y + round(self.scroll_y)
        base, width = self.rich_style, self.size.width
        if row >= len(self._lines):
            return Strip.blank(width, base)
        spans: list[Span] = [
            (start, end, self._match_styles[place == self._match])
            for place, (at, start, end) in enumerate(self._matches)
            if at == row
        ]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(row)) is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            spans.append((span[0], None if span[1] < 0 else span[1], style))
        return paint(self._lines[row].strip, 0, width, base, spans).apply_offsets(0, row)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Source text: without the columns before it, and without the line breaks that wrapping made."""
        pieces: list[str] = []
        for row, line in enumerate(self._lines):
            span = selection.get_span(row)
            if span is not None:
                start, end = span
                pieces += [cut(line.text, start - line.indent, None if end < 0 else end - line.indent), line.joint]
        return ("".join(pieces[:-1]), "\n") if pieces else None

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
