"""The output of a command, of any size, in constant memory: its head, its tail, and a file with the rest.

Text that leaves here has no control sequences. What is written to the file is the same text, up to a limit.
"""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from agentcli.core.plaintext import ControlStripper
from agentcli.tools.builtin import in_thread
from agentcli.tools.encoding import looks_binary

SHOWN = 30_000
"""Characters that go to the model; half from the beginning, half from the end."""
FILE_LIMIT = 100 * 1024 * 1024
_HALF = SHOWN // 2
_FRESH = 4_000
_FLUSH = 512 * 1024
_SAMPLE = 4_096


class CollectedOutput:
    """Feed it bytes with `add`; read `text()` once at the end, and `fresh()` meanwhile for the screen."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = folder / name if folder is not None else None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stripper = ControlStripper()
        self._head = ""
        self._tail = ""
        self._fresh = ""
        self._pending: list[str] = []
        self._pending_size = 0
        self._written = 0
        self._file_failed = False
        self._sample = b""
        self.bytes = 0
        self.characters = 0

    async def add(self, data: bytes) -> None:
        self.bytes += len(data)
        if len(self._sample) < _SAMPLE:
            self._sample += data[: _SAMPLE - len(self._sample)]
        self._take(self._stripper.feed(self._decoder.decode(data)))
        if self._pending_size >= _FLUSH:
            await self._flush()

    async def finish(self) -> None:
        self._take(self._stripper.feed(self._decoder.decode(b"", final=True)) + self._stripper.finish())
        if self._overflowed:
            await self._flush()

    def fresh(self) -> str:
        """The newest text since the last call, at most a screenful."""
        text, self._fresh = self._fresh, ""
        return "" if looks_binary(self._sample) else text

    def text(self) -> str:
        """For the model. Call after `finish`."""
        if looks_binary(self._sample):
            return f"[binary output, {self.bytes:,} bytes]"
        if not self._overflowed:
            return self._head + self._tail
        left_out = self.characters - _HALF - len(self._tail[-_HALF:])
        return f"{self._head}\n\n[… {left_out:,} characters left out{self._where()} …]\n\n{self._tail[-_HALF:]}"

    @property
    def saved_to(self) -> Path | None:
        """The file that has the whole of it, if there is one."""
        return self._path if self._written else None

    @property
    def _overflowed(self) -> bool:
        return self.characters > SHOWN

    def _where(self) -> str:
        if not self._written:
            return ""
        rest = f", which has the first {FILE_LIMIT // 1024 // 1024} MB" if self._written >= FILE_LIMIT else ""
        return f"; all of it is in {self._path}{rest}" if not rest else f"; see {self._path}{rest}"

    def _take(self, text: str) -> None:
        if not text:
            return
        self.characters += len(text)
        self._fresh = (self._fresh + text[-_FRESH:])[-_FRESH:]
        # Everything is kept for the file until it is known whether there will be one.
        if self._path is not None and not self._file_failed and self._written < FILE_LIMIT:
            self._pending.append(text)
            self._pending_size += len(text)
        room = _HALF - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail += text
        # Cut seldom, so that many small pieces do not each copy the whole tail.
        if len(self._tail) > 4 * _HALF:
            self._tail = self._tail[-_HALF:]

    async def _flush(self) -> None:
        text = "".join(self._pending)
        self._pending, self._pending_size = [], 0
        if self._path is None or not text or self._file_failed:
            return
        data = text.encode("utf-8", errors="replace")[: FILE_LIMIT - self._written]
        try:
            await in_thread(_append, self._path, data, self._written == 0)
            self._written += len(data)
        except OSError:
            # A full disk must not fail the command: head and tail are still there.
            self._file_failed = True


def _append(path: Path, data: bytes, create: bool) -> None:
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else os.O_APPEND)
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
