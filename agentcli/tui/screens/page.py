"""Base class of pages: scrolling text with `/` search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from textual import events
from textual.app import ComposeResult

from agentcli.tui.screens.scroller import Pager, Scroller
from agentcli.tui.screens.sheet import MARGIN, EntryLine, Keys, QuitWanted, Sheet, is_exit
from agentcli.tui.screens.text import Runs, safe_block
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")

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


class Page(Sheet[T]):
    """A page to read. Letters are keys; `/` starts a search, Esc ends it, Esc again closes the page."""

    share = 0.9

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._typing = False
        """Whether keys go to the search line; the line stays open while `n` and `N` step through the matches."""

    def lines(self, width: int) -> Sequence[Runs]:
        """Content of the page for this width; longer lines are wrapped. Must be safe text."""
        raise NotImplementedError

    def parts(self) -> ComposeResult:
        yield self.make_pager()
        entry = EntryLine("/", "search")
        entry.display = False
        yield entry

    def make_pager(self) -> Scroller:
        return Pager(self.palette, id="pager")

    @property
    def pager(self) -> Scroller:
        return self.query_one(Scroller)

    @property
    def searching(self) -> bool:
        return bool(self.entry.display)

    def lay_out(self, width: int, room: int) -> None:
        search = 1 if self.searching else 0
        pager = self.query_one(Pager)
        inner = max(1, width - 2 * MARGIN - 1)  # one column is reserved for the scrollbar
        pager.set_lines(self.lines(inner), inner)
        pager.set_height(max(1, min(max(pager.row_count, self.least_rows - search), room - search)))

    def paint(self) -> None:
        super().paint()
        self.pager.palette = self.palette
        self.entry.repaint(self.palette, active=self._typing)
        self.pager.refresh()

    def keys(self) -> Keys:
        if self._typing:
            return [("Enter", "search"), ("Esc", "end search")]
        if self.searching:
            return [("/", "change"), ("n N", "next, previous"), ("Esc", "end search")]
        return [("↑↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")]

    def asides(self) -> Sequence[str]:
        return (self.pager.found,)

    def press(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self.back()
        elif self._typing and key == "enter" and is_exit(self.typed_text, bool(self.pager.matches)):
            self.post_message(QuitWanted())
        elif self._typing and key == "enter":
            self._typing = False  # from now on `n` and `N` move between matches
            self.paint()
        elif self._typing:
            return self.pager.press(key) or self._edit(key, character)
        else:
            return self._read_on(key)
        return True

    def back(self) -> None:
        self._end_search() if self.searching else self.leave()

    def _read_on(self, key: str) -> bool:
        steps = {"n": 1, "enter": 1, "N": -1, "upper_n": -1}.get(key, 0)
        if self.pager.press(_LETTERS.get(key, key)):
            pass
        elif key in ("slash", "ctrl+f"):
            self.entry.display = self._typing = True
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
        if not self.entry.line.press(key, character):
            return False
        self._find()
        return True

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self._typing:
            self.entry.line.insert(event.text[:400])
            self._find()

    def _find(self) -> None:
        self.pager.find(self.entry.line.text)
        self.paint()

    def _end_search(self) -> None:
        self._typing = False
        self.entry.line.clear()
        self.entry.display = False
        self.pager.find("")
        self.settle()


class TextPage(Page[None]):
    """Shows any text. `lines` may contain line breaks and control characters: they are made safe here."""

    def __init__(self, title: str, lines: Iterable[str]) -> None:
        super().__init__(title)
        texts = safe_block("\n".join(lines))
        self._texts = texts if any(texts) else ["(empty)"]
        self._lines: tuple[Palette | None, list[Runs]] = (None, [])
        """Lines and the palette they were made for. The pager wraps them again unless it gets the same list."""

    def lines(self, width: int) -> Sequence[Runs]:
        if self._lines[0] is not self.palette:
            self._lines = (self.palette, [[(text, self.palette.text)] for text in self._texts])
        return self._lines[1]
