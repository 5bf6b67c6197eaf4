"""Private folder of a session's sandbox: the commands' /tmp, and the files mounted over secrets.

It is removed on every exit. After a `kill -9` the next start removes it: each folder contains a lock file that its
process keeps locked while it lives. Folders that are locked, have no lock file, belong to another user or are links are
not touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from agentcli.core.processes.exit_cleanup import on_exit

PREFIX = "agentcli-"
_LOCK = "lock"
_DEEPEST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", 0)
_MOST_LEFTOVERS = 200


class SessionFolder:
    """A session's private folder. The constructor creates it and raises OSError if that fails."""

    def __init__(self, root: Path) -> None:
        self.path, self._lock = _locked_folder(root)
        self._process = os.getpid()
        self._forget = on_exit(self.remove)

    def remove(self) -> None:
        """Remove the folder once all its commands have ended. A second call, or one in a fork, does nothing."""
        if self._lock < 0 or os.getpid() != self._process:
            return
        lock, self._lock = self._lock, -1
        self._forget()
        with contextlib.suppress(OSError):
            _remove(self.path)
        os.close(lock)


def _locked_folder(root: Path) -> tuple[Path, int]:
    from tempfile import mkdtemp

    while True:
        folder = Path(os.path.realpath(mkdtemp(prefix=PREFIX, dir=root)))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A concurrent clean-up may have taken the lock first; then the folder is already removed.
        if os.fstat(lock).st_nlink == 1:
            return folder, lock
        os.close(lock)


def remove_leftovers(root: Path) -> int:
    """Remove the folders of this user's killed sessions and return their number. Never raises."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(PREFIX)][:_MOST_LEFTOVERS]
        for name in names:
            with contextlib.suppress(OSError):
                removed += _remove_if_abandoned(root / name)
    return removed


def _remove_if_abandoned(folder: Path) -> bool:
    descriptor = os.open(folder, _FOLDER)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
            return False
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=descriptor)
        try:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                return False
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
            return True
        finally:
            os.close(lock)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder completely, including read-only folders and very deep trees.

    The lock is removed last, so that the next start finds the rest after an interruption.
    """
    top = os.open(folder, _FOLDER)
    try:
        remover = _Remover(top)
        for _round in range(10_000):
            remover.empty(top, 0, keep=_LOCK)
            if not remover.moved:
                break
            remover.moved = False
        os.unlink(_LOCK, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


class _Remover:
    def __init__(self, top: int) -> None:
        self._top = top
        self._number = 0
        self.moved = False

    def empty(self, folder: int, depth: int, keep: str = "") -> None:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if entry.name != keep]
        for name, is_folder in found:
            # One failure must not stop the removal of the others.
            with contextlib.suppress(OSError):
                self._remove_one(folder, name, depth, is_folder=is_folder)

    def _remove_one(self, folder: int, name: str, depth: int, *, is_folder: bool) -> None:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            return
        if depth >= _DEEPEST:
            self._number += 1
            os.rename(name, f"deep-{os.getpid()}-{self._number}", src_dir_fd=folder, dst_dir_fd=self._top)
            self.moved = True
            return
        _make_writable(folder, name)
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            self.empty(inner, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _make_writable(folder: int, name: str) -> None:
    """Make a folder writable through a descriptor instead of its name, so that a link cannot redirect the change."""
    if not _PATH_ONLY:
        return
    inner = os.open(name, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(inner).st_mode) & 0o700 != 0o700:
            Path(f"/proc/self/fd/{inner}").chmod(0o700)
    finally:
        os.close(inner)
