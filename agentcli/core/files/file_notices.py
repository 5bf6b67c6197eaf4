"""inotify notices of changed files in a few folders. Without inotify a later check finds the same files."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_CREATED, _MOVED_HERE, _CLOSED = 0x100, 0x80, 0x8
_REMOVED = 0x40 | 0x200 | 0x400 | 0x800
"""A file was moved away or deleted, or the folder itself was."""
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_HEADER = struct.Struct("iIII")
_READ = 64 * 1024
_MAX_IDLE = 2
_functions: list[Any] = []


def _library() -> Any:
    if not _functions:
        import ctypes

        _functions.append(ctypes.CDLL(None, use_errno=True))
    return _functions[0]


class FileNotices:
    """Watches folders, not recursively. `descriptor` is readable after a change; -1 without inotify."""

    def __init__(self, *, removals: bool = False) -> None:
        """`removals`: also report files that are gone, and follow links to folders."""
        self._mask = _CREATED | _MOVED_HERE | _CLOSED | _ONLY_FOLDERS | (_REMOVED if removals else _NO_LINKS)
        self._folders: dict[int, str] = {}
        self.descriptor = -1
        with contextlib.suppress(OSError, AttributeError):
            self.descriptor = _library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch more folders; returns whether that worked for all. Cheap for folders that are already watched."""
        self.read()
        if self.descriptor < 0:
            return False
        library, is_complete = _library(), True
        for folder in folders:
            watch = library.inotify_add_watch(self.descriptor, os.fsencode(folder), self._mask)
            if watch >= 0:
                self._folders[watch] = folder
            is_complete = is_complete and watch >= 0
        return is_complete

    def read(self) -> set[Path]:
        """The paths that have changed since the last call; a folder that is gone is its own path."""
        found: set[Path] = set()
        with contextlib.suppress(OSError):
            while self.descriptor >= 0 and (data := os.read(self.descriptor, _READ)):
                position = 0
                while position + _HEADER.size <= len(data):
                    watch, _mask, _cookie, length = _HEADER.unpack_from(data, position)
                    name = data[position + _HEADER.size : position + _HEADER.size + length].rstrip(b"\0")
                    position += _HEADER.size + length
                    if watch in self._folders and (name or self._mask & _REMOVED):
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
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(notices)
