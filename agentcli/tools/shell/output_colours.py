"""Colours of a command's output, kept for its beginning and its end: no other part is shown.

Only pieces with colours are stored, and they are interpreted at the end, so that a flood of output costs nothing.
"""

from __future__ import annotations

from collections import deque

from agentcli.core.text.plaintext import last_states
from agentcli.core.text.terminal_colours import ColourSpan, ColourState, first_and_last, split_colours


class OutputColours:
    def __init__(self, half: int) -> None:
        """`half`: number of characters kept of the beginning and of the end."""
        self._half = half
        self._size = 0
        self._pieces: deque[tuple[int, bytes, str]] = deque()
        """Places of coloured pieces in the plain text, their bytes, and their plain text."""
        self._head: list[tuple[int, bytes, str]] = []

    def add(self, raw: bytes, plain: str) -> None:
        start = self._size
        self._size += len(plain)
        if b"\x1b[" in raw:
            (self._head if start < self._half else self._pieces).append((start, raw, plain))
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][2]) < self._size - self._half:
            self._pieces.popleft()

    def skip(self, characters: int) -> None:
        self._size += characters
        self._pieces.clear()

    def spans(self) -> list[ColourSpan]:
        """Spans by their places in the plain text. A colour is lost where plain text and colours disagree, and where
        an earlier piece that set it was dropped."""
        found: list[ColourSpan] = []
        state = ColourState()
        for start, raw, plain in (*self._head, *self._pieces):
            text, spans = split_colours(last_states(raw.decode("utf-8", "replace")), state)
            if text == plain:
                found += ((start + begin, start + end, look) for begin, end, look in spans)
        return first_and_last(found)
