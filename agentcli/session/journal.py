"""An append-only file of lines that survives kill -9, full disks and unwritable folders.

Owns the file, its lock, and lines that could not be written yet; knows nothing about their content. After `start`
nothing here raises for an I/O error: `problem` has a message while lines are not being saved, missed lines wait in
memory up to a limit, and writing is retried every two minutes.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock
from agentcli.session.base import SessionBusy, make_private_dir

RETRY_SECONDS = 120.0
BUFFER_LIMIT = 8 * 1024 * 1024

_PERMANENT = "This conversation is no longer saved: its session file was removed."


@frozen
class FileEnd:
    """State of a file's end when it was read: of `size` bytes, the first `whole` are complete lines."""

    size: int = 0
    whole: int = 0


class SessionJournal:
    """Appends lines to a file, which the first append creates. It must not exist, unless `go_on_after` was called."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.problem: str | None = None
        self._clock = clock
        self._ending: FileEnd | None = None
        self._lock = FileLock(path.with_suffix(".lock"))
        self._descriptor: int | None = None
        self._newline_first = False
        self._dirty = False
        self._gone = False
        self._missed: deque[bytes] = deque()
        self._missed_bytes = 0
        self._missed_count = 0
        self._overflowed = False
        self._retry_at = 0.0
        self._notices: deque[str] = deque()

    keeps_lock_file = False
    """Whether the lock file stays behind, released, when the lock is released."""

    def start(self) -> None:
        """Take the lock. Raises `SessionBusy`; any other failure sets `problem`."""
        try:
            self._take_lock()
        except LockBusy:
            raise _busy(self.path) from None
        except OSError as error:
            self._fail(error)

    def go_on_after(self, ending: FileEnd) -> None:
        self._ending = ending

    def append(self, line: bytes) -> None:
        """Write one line, with its newline, in one write."""
        if self._gone:
            return
        if self.problem is not None:
            self._keep(line)
            return
        try:
            self._write(line)
        except (OSError, LockBusy) as error:
            self._keep(line)
            self._fail(error)

    def retry_if_due(self, replacement: Callable[[int], bytes]) -> None:
        """Retry missed lines if it is time. Call it before making a line, which may refer to earlier ones.

        If accepted lines are lost for good, `replacement` gets their number and returns what to write instead.
        """
        if self.problem is not None and not self._gone and self._clock.monotonic() >= self._retry_at:
            self._catch_up(replacement)

    def sync(self) -> None:
        """Sync written lines to the disk."""
        if self._descriptor is None or not self._dirty:
            return
        try:
            is_linked = _force(self._descriptor)
        except OSError as error:
            self._fail(error)
            return
        self._dirty = False
        if not is_linked:
            self._lose_file()

    def _lose_file(self) -> None:
        self._gone = True
        self.problem = _PERMANENT
        self._notices.append(_PERMANENT)

    def close(self, replacement: Callable[[int], bytes]) -> None:
        """Retry missed lines once, then release file and lock. May be called twice."""
        if self._missed_count and not self._gone:
            self._catch_up(replacement)
        self.sync()
        self.abandon()

    def reopen(self) -> None:
        """Continue after `close`. Raises `SessionBusy` if another process has the session by now."""
        self._gone = False
        self.start()

    def abandon(self) -> None:
        """Release file and lock without a last retry."""
        self._gone = True
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
        self._lock.release(keep_file=self.keeps_lock_file)

    def take_notice(self) -> str | None:
        return self._notices.popleft() if self._notices else None

    def add_notice(self, text: str) -> None:
        self._notices.append(text)

    # ------------------------------------------------------------------------------------------------ the file

    def _take_lock(self) -> None:
        if not self._lock.held:
            make_private_dir(self.path.parent)
            self._lock.acquire()

    def _open(self) -> int:
        if self._descriptor is not None:
            return self._descriptor
        self._take_lock()
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if self._ending is None:
            flags |= os.O_CREAT | os.O_EXCL
        descriptor = os.open(self.path, flags, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            if self._ending is not None:
                self._cut_torn_line(descriptor, self._ending)
        except OSError:
            os.close(descriptor)
            raise
        # The file exists now: opening it again after a failure must not require a new one.
        self._ending = self._ending or FileEnd()
        self._descriptor = descriptor
        return descriptor

    def _cut_torn_line(self, descriptor: int, ending: FileEnd) -> None:
        size = os.fstat(descriptor).st_size
        if size == ending.size and ending.whole < size:
            os.ftruncate(descriptor, ending.whole)
            size = ending.whole
        # If another program has since added a line without our lock, that is not cut.
        self._newline_first = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"

    def _write(self, line: bytes) -> None:
        descriptor = self._open()
        data = b"\n" + line if self._newline_first else line
        written = 0
        try:
            while written < len(data):
                written += os.write(descriptor, data[written:] if written else data)
        except OSError:
            if written:
                self._take_back(descriptor, written)
            raise
        self._newline_first = False
        self._dirty = True

    def _take_back(self, descriptor: int, written: int) -> None:
        """Remove the partial line of a failed write, or else begin the next one with a newline."""
        try:
            end = os.lseek(descriptor, 0, os.SEEK_CUR)
            if os.fstat(descriptor).st_size == end:
                os.ftruncate(descriptor, end - written)
                return
        except OSError:
            pass
        self._newline_first = True

    # -------------------------------------------------------------------------------------------- missed lines

    def _keep(self, line: bytes) -> None:
        self._missed_count += 1
        if self._overflowed:
            return
        self._missed.append(line)
        self._missed_bytes += len(line)
        if self._missed_bytes > BUFFER_LIMIT:
            self._missed.clear()
            self._missed_bytes = 0
            self._overflowed = True

    def _fail(self, error: OSError | LockBusy) -> None:
        self._retry_at = self._clock.monotonic() + RETRY_SECONDS
        self.problem = (
            f"This conversation is not being saved: {_reason(error)} ({self.path.parent}). "
            f"You can keep working; agentcli retries every {RETRY_SECONDS / 60:.0f} minutes."
        )
        self._notices.append(self.problem)

    def _catch_up(self, replacement: Callable[[int], bytes]) -> None:
        """Write missed lines, oldest first; after a failure the rest waits for the next retry."""
        try:
            self._open()
            if self._overflowed:
                self._write(replacement(self._missed_count))
                self._overflowed = False
            while self._missed:
                self._write(self._missed[0])
                self._missed_bytes -= len(self._missed.popleft())
        except (OSError, LockBusy) as error:
            self._fail(error)
            return
        self._missed_count = 0
        self.problem = None
        self._notices.append("This conversation is being saved again.")


def _force(descriptor: int) -> bool:
    """Sync a file to the disk; returns False if the file was removed. Blocking."""
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(descriptor)
    return os.fstat(descriptor).st_nlink > 0


def _reason(error: OSError | LockBusy) -> str:
    if isinstance(error, LockBusy):
        return "another process is writing to the same session"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if error.errno == errno.EFBIG:
        return "the file has reached its maximum size"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "the folder is not writable"
    if error.errno == errno.EEXIST:
        return "a session file with this id was created meanwhile"
    return (error.strerror or "the file is not writable").lower()


def _busy(path: Path) -> SessionBusy:
    return SessionBusy(
        f"Session {path.stem} is in use by another process. "
        "Close it first, or use --fork-session to continue in a copy."
    )


_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class LockBusy(Exception):
    """Another process holds the lock. Caught inside this package."""


class FileLock:
    """A lock file, held from `acquire` to `release` or to the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock now or raise `LockBusy`; `OSError` if the file cannot be created. Does nothing if held."""
        while self._descriptor is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise LockBusy from None
            except OSError as error:
                # Some network file systems have no locks. A session without a lock is better than none.
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

    def release(self, *, keep_file: bool = False) -> None:
        if self._descriptor is None:
            return
        # Remove the file before releasing the lock: the other order could remove the lock of the next holder.
        with suppress(OSError):
            if not keep_file and self._is_current(self._descriptor):
                self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None
