"""inotify notices of new and rewritten files in a few folders. Without inotify a later check finds the same files."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_CREATED, _MOVED_HERE, _CLOSED = 0x100, 0x80, 0x8
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_HEADER = struct.Struct("iIII")
_READ = 64 * 1024
_MOST_IDLE = 2
_functions: list[Any] = []


def _library() -> Any:
    if not _functions:
        import ctypes

        _functions.append(ctypes.CDLL(None, use_errno=True))
    return _functions[0]


class FileNotices:
    """Watches folders, not recursively. `descriptor` is readable after a change; -1 without inotify."""

    def __init__(self) -> None:
        self._folders: dict[int, str] = {}
        self.descriptor = -1
        with contextlib.suppress(OSError, AttributeError):
            self.descriptor = _library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, folders: Iterable[str]) -> None:
        """Watch more folders. Cheap for folders that are already watched."""
        self.read()
        if self.descriptor >= 0:
            library = _library()
            mask = _CREATED | _MOVED_HERE | _CLOSED | _ONLY_FOLDERS | _NO_LINKS
            for folder in folders:
                watch = library.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
                if watch >= 0:
                    self._folders[watch] = folder

    def read(self) -> set[Path]:
        """The paths created or written since the last call."""
        found: set[Path] = set()
        with contextlib.suppress(OSError):
            while self.descriptor >= 0 and (data := os.read(self.descriptor, _READ)):
                position = 0
                while position + _HEADER.size <= len(data):
                    watch, _mask, _cookie, length = _HEADER.unpack_from(data, position)
                    name = data[position + _HEADER.size : position + _HEADER.size + length].rstrip(b"\0")
                    position += _HEADER.size + length
                    if name and watch in self._folders:
                        found.add(Path(self._folders[watch], os.fsdecode(name)))
        return found

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def __del__(self) -> None:
        self.close()


class NoticePool:
    """Pool of inotify instances, because the kernel takes 5 ms to close one. Safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: list[FileNotices] = []

    def take(self, folders: Iterable[str]) -> FileNotices:
        try:
            notices = self._idle.pop()
        except IndexError:
            notices = FileNotices()
        notices.watch(folders)
        return notices

    def give_back(self, notices: FileNotices) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(notices)
