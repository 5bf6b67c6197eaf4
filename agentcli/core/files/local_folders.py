"""Folders on local disks, where accessing a file does not wait for a network, and a cache of the names in them.

Hundreds of files are looked up before every sandboxed command, and almost all are missing. A new entry changes its
folder's change time, which a program cannot set, so one stat of the folder replaces one for each name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable


class LocalFolders:
    """Folders known to be local. Unknown ones count as remote."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def learn(self, folders: Iterable[str]) -> None:
        """Find out which folders are local; a missing one counts like its nearest existing parent. Blocking."""
        self._known.update(folder for folder in {*folders} - self._known if _is_on_disk(folder))

    def has(self, folders: Iterable[str]) -> bool:
        """Whether all of these folders are known to be local. Never blocks."""
        return self._known.issuperset(folders)


def is_disk(device: int) -> bool:
    """Whether this device (`st_dev`) is a local disk.

    Only Linux shows it: a file system without a block device, such as a network one, has the major number 0. Some local
    file systems have it too (btrfs, overlay, tmpfs), and count as remote.
    """
    return sys.platform == "linux" and os.major(device) != 0


def _is_on_disk(folder: str) -> bool:
    if not folder.startswith("/"):
        return False
    while True:
        try:
            return is_disk(os.stat(folder).st_dev)  # noqa: PTH116 -- dozens of folders, as text
        except (FileNotFoundError, NotADirectoryError):
            folder = folder.rstrip("/").rpartition("/")[0] or "/"
        except (OSError, ValueError):
            return False


SETTLED_NS = 100_000_000
"""Nanoseconds since a folder's last change after which the next change gets a different time: the clock of change times
ticks every few milliseconds."""
_COARSE_NS = 10_000_000
"""Change times that are multiples of this come from a file system with a resolution of seconds: they prove nothing."""
_MAX_FOLDER_BYTES = 65_536
"""Bytes of the folder itself, room for a thousand names or more; a larger one takes too long to list."""
_State = tuple[int, int, int]
"""Device, inode and change time of a folder."""


class ListedNames:
    """The cache. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_State, frozenset[str]]] = {}

    def learn(self, folders: Iterable[str]) -> None:
        """List folders that are unknown or have changed. Blocking.

        Only on disks of this machine: other file systems may open what they do not list. Only where all names are
        ASCII: file systems that ignore case compare other letters in ways of their own.
        """
        for folder in folders:
            try:
                found = os.stat(folder)  # noqa: PTH116 -- text paths, as in all lookups before a command
                state = _state(found)
                known = self._known.get(folder)
                if known is not None and known[0] == state:
                    continue
                self._known.pop(folder, None)
                is_settled = time.time_ns() - found.st_ctime_ns >= SETTLED_NS and found.st_ctime_ns % _COARSE_NS
                if not is_settled or not is_disk(found.st_dev) or found.st_size > _MAX_FOLDER_BYTES:
                    continue
                names = os.listdir(folder)  # noqa: PTH208
            except (OSError, ValueError):
                continue
            if all(map(str.isascii, names)):
                self._known[folder] = (state, frozenset(map(str.lower, names)))

    def of(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, in lower case; None if they are unknown. Costs one stat."""
        known = self._known.get(folder)
        if known is None:
            return None
        try:
            return known[1] if _state(os.stat(folder)) == known[0] else None  # noqa: PTH116
        except OSError:
            return None


def _state(found: os.stat_result) -> _State:
    return found.st_dev, found.st_ino, found.st_ctime_ns
