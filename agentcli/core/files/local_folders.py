"""Folders on local disks, where accessing a file does not wait for a network."""

from __future__ import annotations

import os
import sys
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
