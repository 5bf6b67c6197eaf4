"""Replace a file atomically, and only if it still has the expected content.

The folder is opened once, without following links, and everything happens relative to it: nothing outside that folder
is written, even if the path changes meanwhile. Blocking; raises OSError and `ChangedMeanwhile`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from agentcli.core.files.access import open_below, open_folder
from agentcli.core.frozen import frozen
from agentcli.tools.files.read_cache import digest_of

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}


class ChangedMeanwhile(Exception):
    """The file no longer has the expected content; it was not changed."""


@frozen
class _Place:
    folder: int
    name: str
    temporary: str

    def unlink_temporary(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.temporary, dir_fd=self.folder)


def replace_file(path: str, data: bytes, temporary_name: str, expected: str | None) -> None:
    """Replace a file. `expected`: digest of the replaced content; None if the file must not exist yet.

    Creates parents; keeps mode, owner and extended attributes. A file with hard links is written in place, because a
    rename would separate them; a copy is kept beside it until that has succeeded.
    """
    parent, _slash, name = path.rpartition("/")
    folder = open_folder(parent, create=expected is None)
    place = _Place(folder, name, temporary_name)
    try:
        if expected is None:
            _create(place, data)
        else:
            _replace(place, data, expected)
        _sync_folder(folder)
    finally:
        os.close(folder)


def _create(place: _Place, data: bytes) -> None:
    try:
        # A new file gets the mode of the umask.
        _write_temporary(place, data, 0o666, None)
        try:
            # Linking fails if the file exists, where renaming would overwrite it.
            os.link(place.temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except FileExistsError:
            raise ChangedMeanwhile from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if _exists(place):
                raise ChangedMeanwhile from None
            os.rename(place.temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        place.unlink_temporary()


def _replace(place: _Place, data: bytes, expected: str) -> None:
    try:
        original = open_below(place.folder, place.name, os.O_RDONLY)
    except FileNotFoundError:
        raise ChangedMeanwhile from None
    with os.fdopen(original, "rb") as file:
        old = os.fstat(file.fileno())
        if not old.st_mode & 0o222:
            raise PermissionError(errno.EACCES, "the file is read-only")
        if old.st_nlink > 1:
            _write_in_place(place, data, expected)
            return
        try:
            _write_temporary(place, data, 0o600, file.fileno())
            _check(place, expected)
            os.rename(place.temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except BaseException:
            place.unlink_temporary()
            raise


def _write_temporary(place: _Place, data: bytes, mode: int, model: int | None) -> None:
    # Beside the target, so that the rename stays on one file system.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place.temporary, flags, mode, dir_fd=place.folder), "wb") as file:
        if model is not None:
            _take_after(model, file.fileno())
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _take_after(model: int, copy: int) -> None:
    """Copy owner, mode and extended attributes (access lists, labels) as far as permitted."""
    old = os.fstat(model)
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(copy, old.st_uid, old.st_gid)
    # After the owner: changing it clears some mode bits.
    os.fchmod(copy, stat.S_IMODE(old.st_mode))
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(model):
                with contextlib.suppress(OSError):
                    os.setxattr(copy, name, os.getxattr(model, name))


def _check(place: _Place, expected: str) -> bytes:
    try:
        with os.fdopen(open_below(place.folder, place.name, os.O_RDONLY), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise ChangedMeanwhile from None
    if digest_of(data) != expected:
        raise ChangedMeanwhile
    return data


def _exists(place: _Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write_in_place(place: _Place, data: bytes, expected: str) -> None:
    original = _check(place, expected)
    try:
        _write_temporary(place, original, 0o600, None)
    except OSError:
        place.unlink_temporary()
        raise
    try:
        _overwrite(place, data)
    except OSError:
        # If this fails too, the copy stays: it is the only remaining original.
        _overwrite(place, original)
        place.unlink_temporary()
        raise
    place.unlink_temporary()


def _overwrite(place: _Place, data: bytes) -> None:
    with os.fdopen(open_below(place.folder, place.name, os.O_RDWR), "r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: int) -> None:
    # Best effort: some file systems do not support it, and the file itself is already on disk.
    with contextlib.suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
