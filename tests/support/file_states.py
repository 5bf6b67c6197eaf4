"""Whether anything changed in a folder, without reading its files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

State = tuple[int, ...]


def file_states(folder: Path) -> dict[str, State]:
    """What changes with every path below: of files and links also the time of the last change, which no program can
    set. Of folders only the permissions: git makes a lock in them for a moment."""
    found: dict[str, State] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)  # noqa: PTH118 -- hundreds of times in a test, and pathlib is slow
            status = os.lstat(path)
            found[path] = _state(status)
            if stat.S_ISLNK(status.st_mode) and os.path.isfile(path):  # noqa: PTH113
                found[f"{path} -> "] = _state(os.stat(path))  # noqa: PTH116
    return found


def _state(status: os.stat_result) -> State:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
