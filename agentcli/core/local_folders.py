"""Folders on disks of this machine: to look at a file there does not wait for a network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


class LocalFolders:
    """Folders that are known to be local. What is not known is not."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def learn(self, folders: Iterable[str]) -> None:
        """Find out where folders are; a missing one is where its nearest parent is. Blocking."""
        self._known.update(folder for folder in {*folders} - self._known if _is_on_disk(folder))

    def has(self, folders: Iterable[str]) -> bool:
        """Whether all of these are known to be local. Never waits."""
        return self._known.issuperset(folders)


def is_disk(device: int) -> bool:
    """Whether this device (`st_dev`) is a disk of this machine.

    Only Linux shows it: a file system without a block device, such as one on a network, has the major number 0. Some
    local file systems have it too (btrfs, overlay, tmpfs), and are taken for remote ones.
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
