"""Read files safely: only regular files, up to a size limit, without blocking.

A repository can contain a FIFO, a link to `/dev/zero` or a huge file under any name that agentcli reads automatically
(`.git/HEAD`, `AGENTS.md`, settings). All such reads use this module; a test finds other reads.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from typing import BinaryIO, Literal

from agentcli.core.files.link_free import open_without_links
from agentcli.core.frozen import frozen

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIECE = 1 << 20


class Reason(StrEnum):
    MISSING = "missing"
    NOT_A_FILE = "not a regular file"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"


@frozen
class Unread:
    """Why a file was not read. Falsy like an empty file, for callers that treat both alike."""

    reason: Reason
    detail: str = ""
    """The system's error message in lower case, if any."""

    def __bool__(self) -> Literal[False]:
        return False


def read_bounded(
    path: str | os.PathLike[str], most: int, *, beginning: bool = False, links: bool = True
) -> bytes | Unread:
    """The content, if it has at most `most` bytes; with `beginning`, the first `most` bytes. Never raises. Without
    `links`, no link on the way is followed."""
    try:
        # Non-blocking: opening a FIFO would wait for a writer.
        descriptor = os.open(path, _FLAGS) if links else open_without_links(os.fspath(path), _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return Unread(Reason.MISSING)
    except OSError as error:
        if error.errno == errno.EINVAL:  # of `open_without_links`
            return Unread(Reason.NOT_A_FILE)
        return Unread(Reason.UNREADABLE, (error.strerror or "unknown error").lower())
    except ValueError:
        return Unread(Reason.MISSING, "no file can have this name")
    try:
        return read_descriptor(descriptor, most, beginning=beginning)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, most: int, *, beginning: bool = False) -> bytes | Unread:
    """The same for an open descriptor, which stays open."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Unread(Reason.NOT_A_FILE)
        if status.st_size > most and not beginning:
            return Unread(Reason.TOO_LARGE)
        # The size is not reliable: files in /proc have none, and others grow during the read.
        pieces: list[bytes] = []
        room = most if beginning else most + 1
        while room > 0 and (piece := os.read(descriptor, min(room, _PIECE))):
            pieces.append(piece)
            room -= len(piece)
    except OSError as error:
        return Unread(Reason.UNREADABLE, (error.strerror or "unknown error").lower())
    data = b"".join(pieces)
    return data if len(data) <= most else Unread(Reason.TOO_LARGE)


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file; the caller limits how much is read. Raises OSError for anything else."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
        return open(descriptor, "rb", buffering=buffering)  # noqa: PTH123 -- a descriptor has no path
    except BaseException:
        os.close(descriptor)
        raise


def read_start(path: str | os.PathLike[str], most: int = 4_096) -> str:
    """The beginning of a text file; empty if it cannot be read."""
    return (read_bounded(path, most, beginning=True) or b"").decode("utf-8", "replace")
