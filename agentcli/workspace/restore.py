"""Restore files on disk: remove, write, create folders.

Every step descends from the folder's own descriptor one name at a time and follows no link: a folder that
has become a link must not redirect a write out of the working directory. What cannot be done is reported, never forced.
Everything here blocks; call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from hashlib import sha1
from pathlib import Path

from agentcli.core.frozen import frozen, slotted

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class OldFile:
    """The state to restore at a path."""

    path: str
    content: bytes
    executable: bool = False
    link: bool = False
    mode: int | None = None
    """Permission bits, if they are known to be unusual."""


@slotted
class FolderRestorer:
    """One folder's restoration. Problems are collected by path, with the reason."""

    root: Path
    problems: dict[str, str] = field(default_factory=dict)
    folders: int = 0
    """Number of empty folders created or removed."""

    def clear(self, remove: Sequence[str], empty: Sequence[str], folders_before: AbstractSet[str]) -> None:
        """Remove files and empty folders, and folders that become empty unless they existed before."""
        for path in remove:
            with self._note_path(path), contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
        leaving = {parent for path in remove for parent in parents(path)}
        leaving |= {parent for path in empty for parent in (path, *parents(path))}
        for path in sorted(leaving - folders_before, key=lambda path: path.count("/"), reverse=True):
            # Not empty (ignored or other files), so it is kept.
            with contextlib.suppress(OSError), self._parent(path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
                self.folders += 1

    def write(self, files: Iterable[OldFile]) -> None:
        for file in files:
            with self._note_path(file.path), self._parent(file.path, create=True) as (folder, name):
                _replace(folder, name, file)

    def make_folders(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError), self._parent(path, create=True) as (folder, name):
                os.mkdir(name, dir_fd=folder)
                self.folders += 1

    @contextlib.contextmanager
    def _note_path(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.problems[path] = f"it could not be written: {error.strerror}"

    @contextlib.contextmanager
    def _parent(self, path: str, create: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = path.split("/")
        if any(part in ("", ".", "..", ".git") for part in (*folders, name)):
            raise OSError(0, "not a path that can be restored")
        current = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folders:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                deeper = os.open(part, _FOLDER, dir_fd=current)
                os.close(current)
                current = deeper
            yield current, name
        finally:
            os.close(current)


def parents(path: str) -> Iterator[str]:
    """The folders above a path, nearest first, without the root."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def _replace(folder: int, name: str, file: OldFile) -> None:
    """Write a new file and rename it, so that no partial file is visible and a link is replaced, not followed."""
    try:
        old: os.stat_result | None = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise OSError(0, "a folder is in its place")
    temporary = f".{secrets.token_hex(8)}.tmp"
    if file.link:
        os.symlink(file.content, os.fsencode(temporary), dir_fd=folder)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o777 if file.executable else 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(file.content)
                _set_mode(descriptor, old, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _set_mode(descriptor: int, old: os.stat_result | None, file: OldFile) -> None:
    if old is not None and stat.S_ISREG(old.st_mode):
        mode = stat.S_IMODE(old.st_mode)
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    elif file.mode is not None:
        mode = file.mode
    else:
        return
    mode = mode | (mode & 0o444) >> 2 if file.executable else mode & ~0o111
    os.fchmod(descriptor, mode)


def unusual_modes(root: Path, paths: Iterable[str]) -> Mapping[str, int]:
    """Permission bits that differ from a new file's, such as 0600; a tree only stores "executable"."""
    found: dict[str, int] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.lstat(root / path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISREG(status.st_mode) and mode not in (0o644, 0o755):
                found[path] = mode
    return found


def blob_id(content: bytes) -> str:
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
