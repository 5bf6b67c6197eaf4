"""The terminal emulator of the tests: pyte, with shorter ways for what programs write most.

pyte takes escape sequences character by character, makes a new cell for each character and renders the whole screen for
every look at it: half of the time of a test of the app in a terminal. What is not plain text or a plain control
sequence still goes through pyte.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from typing import Any

import pyte
from pyte import modes
from pyte.screens import Char
from wcwidth import wcwidth

_TOKEN = re.compile(rf"({pyte.Stream._text_pattern.pattern})|\x1b\[(\??)([0-9;]*)([@-~])")
_cells: dict[Char, dict[str, Char]] = {}
"""By the look of the cursor: cells by their character."""
_looks: dict[tuple[Char, tuple[int, ...], bool], Char] = {}
"""Looks of the cursor after a control sequence, by the look before."""

_width = functools.cache(wcwidth)


@functools.cache
def _parameters(text: str) -> tuple[int, ...]:
    return tuple(min(int(number or 0), 9999) for number in text.split(";"))


class Emulator(pyte.Screen):
    """pyte knows neither the alternate screen nor which private modes are on: just what a crash would leave behind."""

    def __init__(self, columns: int, rows: int) -> None:
        self.private_modes: set[int] = {7, 25}
        self.keyboards = 0
        """How many keyboard protocols are stacked."""
        self._main: Any = None
        """The main screen and its cursor, while the alternate one is shown."""
        self._rows: list[str] = []
        super().__init__(columns, rows)

    @property
    def display(self) -> list[str]:
        if len(self._rows) != self.lines:
            self._rows = [""] * self.lines
            self.dirty.update(range(self.lines))
        for row in range(self.lines):
            # Also unchanged rows: pyte deletes lines wrongly where the buffer has no row.
            line = self.buffer[row]
            if row in self.dirty:
                self._rows[row] = self._text_of(line)
        self.dirty.clear()
        return self._rows

    def _text_of(self, line: Mapping[int, Char]) -> str:
        text = "".join([line[column].data for column in range(self.columns)])
        if text.isascii() or all(_width(character) != 2 for character in set(text)):
            return text
        shown: list[str] = []
        column = 0
        while column < self.columns:
            shown.append(text := line[column].data)
            # A wide character has the next cell too.
            column += 2 if text and not text.isascii() and _width(text[0]) == 2 else 1
        return "".join(shown)

    def draw(self, data: str) -> None:
        cursor = self.cursor
        end = cursor.x + len(data)
        if end > self.columns or modes.IRM in self.mode or not (data.isascii() or all(_width(c) == 1 for c in data)):
            # A combining character may change the last cell of the row above.
            self.dirty.update({max(0, cursor.y - 1), cursor.y})
            super().draw(data)
            return
        cells = _cells.setdefault(cursor.attrs, {})
        for char in data:
            if char not in cells:
                cells[char] = cursor.attrs._replace(data=char)
        self.buffer[cursor.y].update(zip(range(cursor.x, end), map(cells.__getitem__, data), strict=True))
        cursor.x = end
        self.dirty.add(cursor.y)

    def select_graphic_rendition(self, *attributes: int, **rest: Any) -> None:
        key = (self.cursor.attrs, attributes, modes.DECSCNM in self.mode)
        if rest or key not in _looks:
            super().select_graphic_rendition(*attributes, **rest)
            if not rest:
                _looks[key] = self.cursor.attrs
        else:
            self.cursor.attrs = _looks[key]

    def set_mode(self, *modes: int, **rest: Any) -> None:
        if rest.get("private"):
            if 1049 in modes and 1049 not in self.private_modes:
                self._main = copy.deepcopy((self.buffer, self.cursor))
                self.erase_in_display(2)
            self.private_modes |= set(modes)
        super().set_mode(*modes, **rest)

    def reset_mode(self, *modes: int, **rest: Any) -> None:
        if rest.get("private"):
            if 1049 in modes and self._main is not None:
                (self.buffer, self.cursor), self._main = self._main, None
                self.dirty.update(range(self.lines))
            self.private_modes -= set(modes)
        super().reset_mode(*modes, **rest)

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal is as a shell expects it."""
        return self.private_modes == {7, 25} and self.keyboards == 0


class QuickStream(pyte.ByteStream):
    def __init__(self, screen: Emulator) -> None:
        super().__init__(screen)
        self._draw = screen.draw
        self._controls = {final: getattr(screen, name) for final, name in self.csi.items()}

    def feed(self, data: bytes) -> None:  # type: ignore[override]
        if not self.use_utf8:
            super().feed(data)
            return
        text = self.utf8_decoder.decode(data)
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at) if self._taking_plain_text else None
            if token is not None and (plain := token[1]):
                self._draw(plain)
            elif token is not None and (control := self._controls.get(token[4])):
                control(*_parameters(token[3]), **({"private": True} if token[2] else {}))
            else:
                self._taking_plain_text = self._send_to_parser(text[at])
                at += 1
                continue
            at = token.end()
