"""Quarantine for files that sandboxed commands planted where other programs would run or obey them.

Each item has one private folder, with a manifest and the content. Everything is moved through folder descriptors opened
without following links: a command that still runs could replace any folder on the way by a link.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen

MANIFEST = "manifest.json"
CONTENT = "content"
_MAX_COPIED = (256 * 1024 * 1024, 20_000)
"""Maximum bytes and entries that are copied between file systems."""
_QUICK = (1024 * 1024, 100)
_MAX_DEPTH = 200
"""Maximum folder depth: far more than programs create, far below the recursion limit."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_RECORDED = ("path", "kind", "command", "when", "reason")
Kind = Literal["created", "changed"]


@frozen(kw_only=True)
class QuarantinedItem:
    id: str
    path: str
    kind: Kind
    """`created`: moved to quarantine. `changed`: the old content was restored, this is the new content."""
    command: str
    when: float
    reason: str


class TooLarge(OSError):
    """The item exceeds the limit for copies between file systems."""


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[int]:
    """A descriptor of the folder that contains a path. Raises OSError if a link is on the way."""
    descriptor = os.open("/", _FOLDER)
    try:
        for part in path.parent.parts[1:]:
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


class Quarantine:
    """The quarantined items of one folder. Safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, path: Path, command: str, reason: str, *, quick: bool = False) -> QuarantinedItem:
        """Move a file, link or folder into quarantine. Raises OSError; the item is then still in its place.

        `quick`: raise `TooLarge` at once instead of copying much between file systems.
        """
        place = self._new()
        try:
            with folder_of(path) as parent:
                try:
                    os.rename(path.name, place / CONTENT, src_dir_fd=parent)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    try:
                        _copy(parent, path.name, place / CONTENT, list(_QUICK if quick else _MAX_COPIED))
                    except TooLarge as large:
                        if quick:
                            raise
                        raise _rename(parent, path.name, large) from None
                    _remove(parent, path.name)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return self._record(place, path, "created", command, reason)

    def keep(self, path: Path, data: bytes, command: str, reason: str) -> QuarantinedItem:
        """Store the new content of a file whose old content is restored."""
        place = self._new()
        (place / CONTENT).write_bytes(data)
        return self._record(place, path, "changed", command, reason)

    def items(self) -> list[QuarantinedItem]:
        """All items, oldest first."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder))
        except OSError:
            return []
        return [item for name in names if (item := self.get(name)) is not None]

    def get(self, item_id: str) -> QuarantinedItem | None:
        if "/" in item_id or item_id in ("", ".", ".."):
            return None
        try:
            data = json.loads((self.folder / item_id / MANIFEST).read_text())
            return QuarantinedItem(id=item_id, **{name: data[name] for name in _RECORDED})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def restore(self, item: QuarantinedItem) -> None:
        """Move an item back to its original path. Raises FileExistsError if that path exists."""
        content, path = self.folder / item.id / CONTENT, Path(item.path)
        with folder_of(path) as parent:
            if item.kind == "changed":
                replace_file(parent, path.name, content.read_bytes())
            elif _exists(parent, path.name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), item.path)
            else:
                try:
                    os.rename(content, path.name, dst_dir_fd=parent)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    # By descriptor, and renamed in one step: a path may become a link meanwhile.
                    draft = f"{path.name}.{os.urandom(6).hex()}"
                    shutil.move(content, f"/proc/self/fd/{parent}/{draft}")
                    os.rename(draft, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        self.remove(item)

    def remove(self, item: QuarantinedItem) -> None:
        shutil.rmtree(self.folder / item.id)

    def _new(self) -> Path:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        place.mkdir(0o700)
        return place

    def _record(self, place: Path, path: Path, kind: Kind, command: str, reason: str) -> QuarantinedItem:
        item = QuarantinedItem(
            id=place.name,
            path=str(path),
            kind=kind,
            command=command[:10_000],
            when=time.time(),
            reason=reason,
        )
        values = {name: getattr(item, name) for name in _RECORDED}
        (place / MANIFEST).write_text(json.dumps(values, indent=2))
        return item


def replace_file(parent: int, name: str, data: bytes) -> None:
    """Write a file atomically, so that a reader sees the old or the new content. Never through a link."""
    draft = f"{name}.{os.urandom(6).hex()}"
    descriptor = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            with contextlib.suppress(OSError):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode))
        os.replace(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=parent)
        raise


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _remove(parent: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _rename(parent: int, name: str, reason: OSError) -> OSError:
    """Rename an item that cannot be copied, so that no program obeys it in its place. Returns the error to raise."""
    aside = f"{name}.quarantined-{os.urandom(3).hex()}"
    try:
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        return error
    return OSError(reason.errno, f"{reason.strerror}, renamed to {aside}")


def _copy(parent: int, name: str, target: Path, left: list[int], depth: int = 0) -> None:
    """Copy across file systems. Links stay links; pipes, sockets and devices are skipped. `left`: bytes, entries."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    left[1] -= 1
    left[0] -= found.st_size if stat.S_ISREG(found.st_mode) else 0
    if min(left) < 0 or depth > _MAX_DEPTH:
        raise TooLarge(errno.EFBIG, "too large for quarantine", name)
    if stat.S_ISLNK(found.st_mode):
        target.symlink_to(os.readlink(name, dir_fd=parent))
    elif stat.S_ISREG(found.st_mode):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)
        target.chmod(stat.S_IMODE(found.st_mode) & 0o777)
    elif stat.S_ISDIR(found.st_mode):
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
        try:
            target.mkdir(0o700)
            for inner in os.listdir(descriptor):  # noqa: PTH208 - by descriptor
                _copy(descriptor, inner, target / inner, left, depth + 1)
        finally:
            os.close(descriptor)
