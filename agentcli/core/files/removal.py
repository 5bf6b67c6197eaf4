"""Remove files of our own without following links, and count what that frees."""

from __future__ import annotations

import errno
import os
import shutil
import stat

from agentcli.core.files.access import open_folder, real_path


def remove_below(folder: str | os.PathLike[str], name: str) -> int:
    """Remove the file or folder `name`, a relative path, below `folder`; returns the bytes that its files had, 0 if it
    does not exist. Raises OSError; also if `name` or a folder in it is a link or a special file."""
    parent, _slash, last = name.rpartition("/")
    try:
        descriptor = open_folder(f"{real_path(folder)}/{parent}")
        try:
            return _remove(last, descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return 0


def _remove(name: str, parent: int) -> int:
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        size = _size(name, parent)
        shutil.rmtree(name, dir_fd=parent)
        return size
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", name)
    os.unlink(name, dir_fd=parent)
    return status.st_size


def _size(name: str, parent: int) -> int:
    total = 0
    for _path, _folders, files, folder in os.fwalk(name, dir_fd=parent):
        total += sum(os.stat(file, dir_fd=folder, follow_symlinks=False).st_size for file in files)
    return total
