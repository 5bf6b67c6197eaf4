"""Colours of a command's output, kept for its beginning and its end: no other part is shown.

Only pieces with colours are stored, a limited number of bytes, and they are interpreted at the end: a flood of output
or of control sequences costs little memory, and time only at the end.
"""

from __future__ import annotations

from collections import deque

from agentcli.core.text.plaintext import last_states
from agentcli.core.text.terminal_colours import ColourSpan, ColourState, first_and_last, split_colours

MAX_BYTES = 128 * 1024
"""Bytes of coloured pieces that are kept of the beginning, and as many of the end; the last piece may exceed it."""


class OutputColours:
    def __init__(self, half: int) -> None:
        """`half`: number of characters kept of the beginning and of the end."""
        self._half = half
        self._size = 0
        self._pieces: deque[tuple[int, bytes, str]] = deque()
        """Places of coloured pieces in the plain text, their bytes, and their plain text."""
        self._head: list[tuple[int, bytes, str]] = []
        self._head_bytes = self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._head_bytes + self._bytes

    def add(self, raw: bytes, plain: str) -> None:
        start = self._size
        self._size += len(plain)
        if b"\x1b[" in raw and start < self._half and self._head_bytes + len(raw) <= MAX_BYTES:
            self._head.append((start, raw, plain))
            self._head_bytes += len(raw)
        elif b"\x1b[" in raw:
            self._pieces.append((start, raw, plain))
            self._bytes += len(raw)
        while self._pieces and self._is_first_dropped():
            self._bytes -= len(self._pieces.popleft()[1])

    def _is_first_dropped(self) -> bool:
        start, _raw, plain = self._pieces[0]
        is_too_large = self._bytes > MAX_BYTES and len(self._pieces) > 1
        return is_too_large or start + len(plain) < self._size - self._half

    def skip(self, characters: int) -> None:
        self._size += characters
        self._pieces.clear()
        self._bytes = 0

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
