"""Atomic replacement of a small file: readers see the old or the new content, never a part; writers take turns."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file, by locking a `.lock` file beside it. Raises `OSError`."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Replace the content: write a temporary file, sync it, rename it. The folder must exist. Follows a link.

    Raises `OSError` and leaves the old file untouched then. An existing file keeps its permission bits.
    """
    target = path.resolve()
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o777
    replace_in_place(target, data, mode)


def replace_in_place(target: Path, data: bytes, mode: int) -> None:
    """Like `replace_file`, with exactly these permission bits, and without following a link. Raises `OSError`."""
    beside = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            # The umask may have removed bits, and an inherited ACL may have added some.
            os.fchmod(descriptor, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
