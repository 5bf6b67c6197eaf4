"""Removes the empty folders and files that earlier versions put in the place of protected names.

They noted what they made in lock files below the cache folder. Only what is still empty, or still holds exactly what
was noted, is removed; a file whose lock is held belongs to an old version that still runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

_FOLDER = "placeholders"
_MOST_BYTES = 1_000_000


def remove_leftovers(cache_dir: Path | None) -> None:
    """Cheap when there is nothing to do: one check of a folder that usually does not exist."""
    if cache_dir is None or not (cache_dir / _FOLDER).is_dir():
        return
    with contextlib.suppress(OSError):
        for lock in (cache_dir / _FOLDER).iterdir():
            with contextlib.suppress(OSError):
                _clean(lock)
        (cache_dir / _FOLDER).rmdir()


def _clean(lock: Path) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for line in os.read(descriptor, _MOST_BYTES).splitlines():
            with contextlib.suppress(OSError, ValueError, TypeError):
                _remove(json.loads(line))
        lock.unlink()
    finally:
        os.close(descriptor)


def _remove(entry: object) -> None:
    match entry:
        case str():
            Path(entry).rmdir()
        case [str() as name, str() as text]:
            path = Path(name)
            if not path.is_symlink() and path.stat().st_size == len(text) and path.read_text() == text:
                path.unlink()
