"""Rename and delete sessions that no process has open.

Only files that the store writes are touched, below the folder of sessions, and never through links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcli.core.files.access import open_regular, open_without_links, real_path
from agentcli.core.files.removal import remove_below
from agentcli.core.ids import Clock, Ids
from agentcli.session.base import SessionBusy, encode_line, title_fields
from agentcli.session.journal import FileLock, LockBusy


@contextmanager
def hold(path: Path) -> Iterator[Path]:
    """Hold the lock of a session; gives its file without links in the path. Raises `SessionBusy` and `OSError`."""
    real = Path(real_path(path.parent.parent)) / path.parent.name / path.name
    # Refuses a file or a project folder that is a link.
    os.close(open_without_links(str(real), os.O_RDONLY))
    place = real.with_suffix(".lock")
    lock, was_there = FileLock(place), place.exists()
    try:
        lock.acquire()
    except LockBusy:
        raise SessionBusy(f"Session {path.stem} is open. Close it first.") from None
    try:
        yield real
    finally:
        # The file that a crash left behind offers to continue the session.
        lock.release(keep_file=was_there and real.exists())


def rename_session(path: Path, title: str, clock: Clock, ids: Ids) -> None:
    """Give a session a name. Its time stays, so that it is no newer than before. Raises `SessionBusy` and `OSError`."""
    line = {"type": "custom-title", "uuid": ids.new(), "parentUuid": None, "sessionId": path.stem}
    line |= {"timestamp": clock.timestamp(), **title_fields(title)}
    with hold(path) as real, open_regular(real) as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - 1))
        # After a torn line, which stays unreadable.
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        descriptor = open_without_links(str(real), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, begin + encode_line(line))
            os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(descriptor)


def delete_session(path: Path, *, keep_results: bool = False) -> int:
    """Delete a session's file and, unless told otherwise, its large tool output; returns the bytes freed. Raises
    `SessionBusy` and `OSError`."""
    with hold(path) as real:
        freed = 0 if keep_results else remove_below(real.parent, path.stem)
        return freed + remove_below(real.parent, path.name)
