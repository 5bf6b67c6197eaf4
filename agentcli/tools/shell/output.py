"""Collect the output of a command in constant memory: its head, its tail, and a file with the rest.

Returned text has no control sequences. The file has the same text, up to a limit. `LatestRows` is what a screen shows
while the command runs, with its colours.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import ControlStripper, last_states, plain_bytes
from agentcli.core.text.terminal_colours import ColourSpan, ColourState, first_and_last, moved, split_colours
from agentcli.tools.files.encoding import looks_binary

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
    def is_used(self) -> bool:
        return bool(self._head or self._pieces)

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


SHOWN = 30_000
"""Characters for the model; half from the beginning, half from the end."""
FILE_LIMIT = 100 * 1024 * 1024
_HALF = SHOWN // 2
_FLUSH = 512 * 1024
_SAMPLE = 4_096


class HeadAndTail:
    """The beginning and the end of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self.characters = 0

    def add(self, text: str) -> None:
        self.characters += len(text)
        room = _HALF - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if len(text) >= _HALF:
            self._tail = text[-_HALF:]
            return
        self._tail += text
        # Cut rarely, so that many small pieces do not each copy the whole tail.
        if len(self._tail) > 4 * _HALF:
            self._tail = self._tail[-_HALF:]

    @property
    def overflowed(self) -> bool:
        return self.characters > SHOWN

    def text(self, where: str) -> str:
        """The text. `where` names the location of the rest."""
        return "".join(self._parts(where))

    def _parts(self, where: str) -> tuple[str, str, str]:
        """The beginning, a note about the omission, and the end."""
        if not self.overflowed:
            return self._head, "", self._tail
        tail = self._tail[-_HALF:]
        left_out = self.characters - _HALF - len(tail)
        return self._head, f"\n\n[… {counted(left_out, 'character')} left out{where} …]\n\n", tail

    def place(self, spans: Sequence[ColourSpan], where: str) -> list[ColourSpan]:
        """Spans of everything that was added, by their places in `text(where)`."""
        head, note, tail = self._parts(where)
        before = len(head) + len(note)
        in_tail = moved(spans, len(tail) - self.characters, len(tail))
        return [*moved(spans, 0, len(head)), *moved(in_tail, before, before + len(tail))]


class CollectedOutput:
    """Add bytes with `add`; read `text()` at the end, `take_unread()` in between, `fresh()` for the screen."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = folder / name if folder is not None else None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stripper = ControlStripper()
        self._line = b""
        """The last line, which may still be overwritten."""
        self._screen = LatestRows()
        self._whole = HeadAndTail()
        self._colours = OutputColours(_HALF)
        self._spans: list[ColourSpan] = []
        self._unread = HeadAndTail()
        self._pending: list[str] = []
        self._pending_size = 0
        self._written = 0
        self._file_failed = False
        self._writing = asyncio.Lock()
        self._sample = b""
        self._binary: bool | None = None
        """Whether the output is binary; None until the sample is complete."""
        self.bytes = 0
        self.line_breaks = 0
        """Line breaks in all output, including parts that are left out."""
        self._ends_in_line = False

    async def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self.line_breaks += data.count(b"\n")
        self._ends_in_line = not data.endswith(b"\n") if data else self._ends_in_line
        if len(self._sample) < _SAMPLE:
            self._sample += data[: _SAMPLE - len(self._sample)]
        elif self._is_binary:
            return  # not shown, only counted
        self._screen.add(data)
        self._read(data)
        if self._pending_size >= _FLUSH:
            await self._flush()

    @property
    def _is_binary(self) -> bool:
        if self._binary is not None:
            return self._binary
        is_binary = looks_binary(self._sample)
        self._binary = is_binary if len(self._sample) >= _SAMPLE else None
        return is_binary

    def _read(self, data: bytes) -> None:
        """Take the finished lines; the last one may still be overwritten."""
        data = self._line + data
        end = data.rfind(b"\n") + 1
        self._line = data[end:]
        if b"\r" in self._line:
            self._line = self._line[self._line.rstrip(b"\r").rfind(b"\r") + 1 :]
        if len(self._line) > MAX_ROW_LENGTH:
            end, self._line = len(data), b""
        self._take(self._plain(data[:end]), data[:end])

    def _plain(self, data: bytes) -> str:
        is_inside = self._decoder.getstate()[0] or self._stripper.held
        plain = None if is_inside else plain_bytes(data)
        if plain is not None:
            return self._decoder.decode(plain)
        return self._stripper.feed(last_states(self._decoder.decode(data)))

    async def finish(self) -> None:
        line, self._line = self._line, b""
        self._take(self._plain(line), line)
        self._take(self._stripper.feed(self._decoder.decode(b"", final=True)) + self._stripper.finish(), b"")
        self._spans = await in_thread(self._colours.spans) if self._colours.is_used else []
        if self._whole.overflowed:
            await self._flush()

    def fresh(self) -> str:
        """The newest text since the last call, in the form of `ToolProgressed.text`."""
        return "" if self._is_binary else self._screen.take()

    @property
    def fresh_colours(self) -> list[ColourSpan]:
        """Colours of the text that `fresh` last returned, without its carriage return."""
        return self._screen.colours

    @property
    def characters(self) -> int:
        return self._whole.characters

    @property
    def lines(self) -> int:
        """Number of lines of all output, including parts that are left out."""
        return self.line_breaks + self._ends_in_line

    @property
    def is_cut(self) -> bool:
        """Whether `text` leaves something out."""
        return self._whole.overflowed and not self._is_binary

    @property
    def unread(self) -> int:
        """Characters that `take_unread` has not returned yet."""
        return self._unread.characters + len(self._line)

    @property
    def unread_text(self) -> str:
        """What `take_unread` will return, which stays unread. Call after `finish`."""
        return self._shown(self._unread)

    def text(self) -> str:
        """The text for the model. Call after `finish`."""
        return self._shown(self._whole)

    def colours(self) -> list[ColourSpan]:
        """Colours of `text()`. Call after `finish`."""
        return [] if self._is_binary else self._whole.place(self._spans, self._where())

    async def take_unread(self) -> str:
        """Head and tail of the output since the last call; the file has all of it."""
        line, self._line = self._line, b""
        self._take(self._plain(line), line)
        unread, self._unread = self._unread, HeadAndTail()
        if unread.overflowed:
            await self._flush()
        return self._shown(unread) if unread.characters else ""

    @property
    def saved_to(self) -> Path | None:
        """The file with the complete output, if there is one."""
        return self._path if self._written else None

    def _shown(self, part: HeadAndTail) -> str:
        if self._is_binary:
            return f"[binary output, {counted(self.bytes, 'byte')}]"
        return part.text(self._where())

    def _where(self) -> str:
        if not self._written:
            return ""
        size = byte_size(self._written)
        if self._written >= FILE_LIMIT:
            return f"; see {self._path}, which has the first {size}"
        return f"; all of it is in {self._path} ({size})"

    def _take(self, text: str, raw: bytes) -> None:
        if not text:
            return
        self._whole.add(text)
        self._colours.add(raw, text)
        self._unread.add(text)
        # Everything is kept in memory until it is known whether a file is needed.
        if self._path is not None and not self._file_failed and self._written < FILE_LIMIT:
            self._pending.append(text)
            self._pending_size += len(text)

    async def _flush(self) -> None:
        async with self._writing:
            pieces, self._pending, self._pending_size = self._pending, [], 0
            if self._path is None or not pieces or self._file_failed:
                return
            try:
                self._written += await in_thread(
                    _append, self._path, pieces, FILE_LIMIT - self._written, self._written == 0
                )
            except OSError:
                # A full disk must not fail the command: head and tail are still available.
                self._file_failed = True


def _append(path: Path, pieces: Sequence[str], room: int, create: bool) -> int:
    """Write the pieces as far as there is room; returns the bytes written."""
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else os.O_APPEND)
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, flags, 0o600)
    written = 0
    # One by one: joining them would copy everything to freshly allocated memory, which costs more than the writes.
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            written += file.write(piece.encode("utf-8", errors="replace")[: room - written])
    return written
