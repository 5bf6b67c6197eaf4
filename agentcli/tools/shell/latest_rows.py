"""The output of a running command for the screen: the latest rows, with overwritten rows in their last state."""

from __future__ import annotations

import codecs

from agentcli.core.text.plaintext import ControlStripper, last_states
from agentcli.core.text.terminal_colours import ColourSpan, ColourState, moved, split_colours

MAX_ROW_LENGTH = 8_192
"""In characters; a longer row is not a progress bar and is shown without waiting for its end."""
_SHOWN = 4_000
"""In characters: a screenful."""
_KEPT_BYTES = 16 * 1024
_CONTINUED = bytes(range(0x80, 0xC0))


class LatestRows:
    """Add bytes with `add`; `take` returns the new text, in the form of `ToolProgressed.text`."""

    def __init__(self) -> None:
        self._bytes = b""
        self._has_gap = False
        """Whether bytes before `_bytes` were left out since the last `take`."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._row = ""
        """The last row with its control sequences, because later output may continue or overwrite it."""
        self._shown = ""
        """The part of `_row` that was already returned, as text."""
        self._is_open = False
        """Whether the returned text ends inside a row."""
        self._state = ColourState()
        """The colours at the start of `_row`."""
        self.colours: list[ColourSpan] = []
        """Colours of the text last returned, without its carriage return."""

    def add(self, data: bytes) -> None:
        if len(data) < _KEPT_BYTES and self._bytes:
            data = self._bytes + data
        elif self._bytes:
            self._has_gap = True
        self._has_gap = self._has_gap or len(data) > _KEPT_BYTES
        self._bytes = data[-_KEPT_BYTES:]

    def take(self) -> str:
        """Return the new text, at most a screenful. It begins with a carriage return if it replaces the last row."""
        data, self._bytes = self._bytes, b""
        self.colours = []
        if not data:
            return ""
        has_gap, self._has_gap = self._has_gap, False
        if has_gap:
            self._decoder.reset()
            self._row = self._shown = ""
            self._state = ColourState()
            data = data[data.find(b"\n") + 1 :].lstrip(_CONTINUED)
        stripper = ControlStripper()
        raw = last_states(self._row + self._decoder.decode(data))
        text = stripper.feed(raw)
        colours = self._read_colours(raw, text, stripper.held)
        follows = text.startswith(self._shown) and not (has_gap and self._is_open)
        fresh = text[len(self._shown) :] if follows else text
        if len(fresh) > _SHOWN:
            fresh = fresh[fresh.find("\n", -_SHOWN) + 1 or -_SHOWN :]
            follows = not self._is_open
        self._row, self._shown = raw[raw.rfind("\n") + 1 :], text[text.rfind("\n") + 1 :]
        if len(self._row) > MAX_ROW_LENGTH:
            self._row, self._shown = stripper.held, ""
        self.colours = list(moved(colours, len(fresh) - len(text), len(fresh)))
        if not follows:
            fresh = "\r" + fresh
        elif not fresh:
            return ""
        self._is_open = not fresh.endswith(("\n", "\r"))
        return fresh

    def _read_colours(self, raw: str, text: str, held: str) -> list[ColourSpan]:
        """Return the colours of `text`, and keep those at the start of the last row."""
        if "\x1b[" not in raw and not self._state.look:
            return []
        end = raw.rfind("\n") + 1
        above, spans = split_colours(raw[:end], self._state)
        row, more = split_colours(raw[end : len(raw) - len(held)], self._state.copy())
        if above + row != text:
            return []
        return spans + [(len(above) + start, len(above) + stop, look) for start, stop, look in more]
