"""Files on disk for the tools: looking before opening, reading, and replacing a file so that it is never half there.

Everything here names real paths: links are resolved once, by the caller, and not followed again when opening (S4).
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from agentcli.core.frozen import frozen

LARGEST_LOADED = 32 * 1024 * 1024
"""Larger files are streamed when read, and cannot be edited."""

_KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")


@frozen
class Refusal:
    """Why something is not a file that can be read or written, for the model."""

    text: str
    missing: bool = False


def inspect(path: str, shown: str) -> os.stat_result | Refusal:
    """Look without opening: opening a pipe waits for ever and opening a device may do anything."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Refusal(f"{shown} does not exist.", missing=True)
    except OSError as error:
        return Refusal(f"{shown} cannot be looked at: {(error.strerror or '').lower()}.")
    if stat.S_ISDIR(found.st_mode):
        return Refusal(f"{shown} is a directory. List it with Glob or ls, or name a file in it.")
    if stat.S_ISLNK(found.st_mode):
        return Refusal(f"{shown} is a symbolic link that leads nowhere or in a circle.")
    if not stat.S_ISREG(found.st_mode):
        return Refusal(f"{shown} is a pipe, socket or device, not a regular file.")
    if path.startswith(_KERNEL_FOLDERS):
        return Refusal(f"{shown} belongs to the kernel, it is not a regular file.")
    return found


def open_without_links(path: str, flags: int) -> int:
    """For `open(opener=…)`: fails if the name has become a link, and does not wait if it has become a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


async def load(path: str) -> bytes:
    """The whole file. Raises OSError."""
    import aiofiles

    async with aiofiles.open(path, "rb", opener=open_without_links) as file:
        data: bytes = await file.read(LARGEST_LOADED + 1)
        return data


def replace_file(path: str, data: bytes, temporary_name: str) -> None:
    """Put data in place of the file, whole or not at all; mode and owner stay. Raises OSError. Blocking.

    Parents are created. A file with several names (hard links) is written in place, because a rename would part
    them; a copy is kept beside it until that has succeeded.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = str(target.parent / temporary_name)
    try:
        old = os.lstat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not old.st_mode & 0o222:
        raise PermissionError(13, "the file is read-only")
    if old is not None and old.st_nlink > 1:
        _write_in_place(path, data, temporary)
        return
    # Beside the target, so that the rename stays on one file system; a new file gets the mode that the umask leaves.
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if old is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old is not None:
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(PermissionError):
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
                # After the owner: changing the owner clears some bits of the mode.
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
    _sync_folder(str(target.parent))


def _write_in_place(path: str, data: bytes, copy: str) -> None:
    original = Path(path).read_bytes()
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(original)
        file.flush()
        os.fsync(file.fileno())
    try:
        _overwrite(path, data)
    except OSError:
        # The copy stays if this fails too: then it is all that is left of the original.
        _overwrite(path, original)
        Path(copy).unlink()
        raise
    Path(copy).unlink()


def _overwrite(path: str, data: bytes) -> None:
    with open(path, "r+b", opener=open_without_links) as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: str) -> None:
    # Best effort: some file systems do not take it, and the file itself is already on disk.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def near_names(path: str) -> list[str]:
    """Names in the same folder that may have been meant. Blocking; never raises."""
    import difflib

    folder, name = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _index in zip(entries, range(5_000), strict=False)]
    except OSError:
        return []
    stem = name.rpartition(".")[0] or name
    alike = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return list(dict.fromkeys(alike + [known for known in sorted(names) if known.rpartition(".")[0] == stem]))[:3]
