"""Single-line text entry, for searches and values. Pure: keys in, text and runs out.

It is not a focused widget: then letters would go to the widget and other keys to the screen, each through its own
queue, and fast typing would deliver Enter before the letters. So the screen receives all keys.
"""

from __future__ import annotations

from itertools import accumulate

from rich.cells import cell_len
from rich.style import Style

from agentcli.tui.glyphs import EVEN, glyphs
from agentcli.tui.screens.text import Runs, safe
from agentcli.tui.theme.palette import Palette

_CURSOR = Style(reverse=True)


class LineEdit:
    def __init__(self, longest: int = 200) -> None:
        self.text = ""
        self.cursor = 0
        self.masked = False
        self._longest = longest

    def clear(self) -> None:
        self.text, self.cursor = "", 0

    def insert(self, text: str) -> None:
        """Insert typed or pasted text: line breaks become blanks, control sequences are removed."""
        text = safe(text, self._longest)[: max(0, self._longest - len(self.text))]
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def press(self, key: str, character: str | None) -> bool:
        """Handle a key; return whether it has an effect here."""
        match key:
            case "backspace" | "ctrl+h":
                self._remove(self._left(), self.cursor)
            case "delete" | "ctrl+d":
                self._remove(self.cursor, self._right())
            case "ctrl+w" | "alt+backspace" | "ctrl+backspace":
                self._remove(self._word_left(), self.cursor)
            case "ctrl+u":
                self._remove(0, self.cursor)
            case "ctrl+k":
                self._remove(self.cursor, len(self.text))
            case "left" | "ctrl+b":
                self.cursor = self._left()
            case "right" | "ctrl+f":
                self.cursor = self._right()
            case "ctrl+left" | "alt+left" | "alt+b":
                self.cursor = self._word_left()
            case "ctrl+right" | "alt+right" | "alt+f":
                self.cursor = self._word_right()
            case "ctrl+a" | "home":
                self.cursor = 0
            case "ctrl+e" | "end":
                self.cursor = len(self.text)
            case _:
                if not character or not character.isprintable():
                    return False
                self.insert(character)
        return True

    def _remove(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _places(self) -> list[int]:
        """Possible cursor positions, never inside a glyph."""
        return [0, *accumulate(len(source) for source, _shown, _width in glyphs(self.text))]

    def _left(self) -> int:
        return max((place for place in self._places() if place < self.cursor), default=0)

    def _right(self) -> int:
        return min((place for place in self._places() if place > self.cursor), default=len(self.text))

    def _word_left(self) -> int:
        before = self.text[: self.cursor].rstrip()
        return before.rfind(" ") + 1

    def _word_right(self) -> int:
        rest = self.text[self.cursor :]
        blank = rest.find(" ", len(rest) - len(rest.lstrip()))
        return len(self.text) if blank < 0 else self.cursor + blank

    def row(self, width: int, palette: Palette, placeholder: str, active: bool = True) -> tuple[Runs, int]:
        cursor = _CURSOR if active else Style.null()
        if not self.text:
            return [(placeholder[:1] or " ", palette.muted + cursor), (placeholder[1:], palette.muted)], 0
        if self.masked:
            return self._masked(width, palette, cursor)
        start = self._first_shown(width)
        before, under = self.text[start : self.cursor], self.text[self.cursor : self._right()]
        after = self.text[self._right() :] if under else ""
        runs: Runs = [(before, palette.text), (under or " ", palette.text + cursor), (after, palette.text)]
        return runs, cell_len(before)

    def _masked(self, width: int, palette: Palette, cursor: Style) -> tuple[Runs, int]:
        start = max(0, self.cursor - max(1, width - 2))
        dots = "•" * (len(self.text) - start)
        at = self.cursor - start
        return [
            (dots[:at], palette.text),
            (dots[at : at + 1] or " ", palette.text + cursor),
            (dots[at + 1 :], palette.text),
        ], at

    def _first_shown(self, width: int) -> int:
        """First visible character, so that the cursor fits into the width."""
        room = max(1, width - 2)
        if EVEN(self.text) is None:
            return max(0, self.cursor - room)
        for place in self._places():
            if cell_len(self.text[place : self.cursor]) <= room:
                return place
        return self.cursor
