"""One writer per session: an advisory lock on a file beside the log, which the system drops when its holder dies.

It is not on the log itself, because readers and other programs may open that as they like. The lock file is
removed on release; whoever gets a lock therefore checks that the file it locked is still the one at that path.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class LockBusy(Exception):
    """Another process holds the lock. Caught inside this package."""


class FileLock:
    """Not reentrant; held from `acquire` to `release` or to the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock now or raise `LockBusy`; OSError if the file cannot be made. Does nothing if it is held."""
        while self._descriptor is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise LockBusy from None
            except OSError as error:
                # Some network file systems know no locks. A session without a lock is better than none.
                if error.errno not in _NO_LOCKS_HERE:
                    os.close(descriptor)
                    raise
            if self._is_current(descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._descriptor is None:
            return
        # Removed before it is let go: the other way round could remove the lock of the next holder.
        with suppress(OSError):
            if self._is_current(self._descriptor):
                self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None
