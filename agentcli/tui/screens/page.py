"""Sheets with text to read: `ReadingSheet` is the base of pages and dialogs, `Page` a page with the keys of `less`."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from textual import events, work
from textual.app import ComposeResult

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.scroller import Scroller
from agentcli.tui.screens.sheet import MARGIN, Keys, QuitWanted, Sheet, is_exit
from agentcli.tui.screens.text import EntryLine, Runs, safe_block
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")

LONG = 80_000
"""Characters of plain text that are laid out without delaying a key; longer text is laid out in a thread."""
_LETTERS: Mapping[str, str] = {
    "k": "up",
    "j": "down",
    "b": "pageup",
    "space": "pagedown",
    "g": "home",
    "G": "end",
    "upper_g": "end",
}
"""The same as in `less`."""
_MAX_ENTRY = 100_000


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

    def make_scroller(self) -> Scroller:
        return Scroller(self.palette, id="body")

    def parts(self) -> ComposeResult:
        yield self.make_scroller()
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
        self._lines_are_final = version == self._version or self.size_of_body <= LONG
        if version == self._version:
            return lines
        if self.size_of_body <= LONG:
            lines = self.body(width)
            self._laid_out[key] = (self._version, lines)
            return lines
        if key not in self._laying_out:
            self._laying_out.add(key)
            self._lay_out_in_thread(key, width)
        return lines or wrap([("Laying out a long text …", self.palette.muted)], width)

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

    def quits(self) -> bool:
        """Quit the app if `/exit` was typed as a search; return whether it does."""
        quits = is_exit(self.entry.line.text, bool(self.scroller.matches))
        if quits:
            self.post_message(QuitWanted())
        return quits

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
            return self.read_on(key)
        elif key == "enter":
            if not self.quits():
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
        """Handle a key outside of the search line."""
        steps = {"n": 1, "enter": 1, "N": -1, "upper_n": -1}.get(key, 0)
        if self.scroller.press(_LETTERS.get(key, key)):
            pass
        elif key in ("slash", "ctrl+f"):
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

    def go_to_end(self) -> None:
        if self.is_open:
            self.scroller.move_to(self.scroller.row_count)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self._typing:
            self.entry.line.insert(event.text[:400])
            self.find_typed()


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
