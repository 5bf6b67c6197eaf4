"""Access files safely: bounded reads, JSON within limits, paths resolved with one system call, opening without links.

A repository can contain a FIFO, a link to `/dev/zero` or a huge file under any name that agentcli reads automatically
(`.git/HEAD`, `AGENTS.md`, settings). Such reads are of regular files only, up to a size limit, and never block. All of
them use this module; a test finds other reads.

A path is resolved and approved before it is opened; a link that appears meanwhile must not lead elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any, BinaryIO, Literal

from agentcli.core.frozen import frozen

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
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
        descriptor = os.open(path, _READ_FLAGS) if links else open_without_links(os.fspath(path), _READ_FLAGS)
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
    descriptor = os.open(path, _READ_FLAGS)
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


DEEPEST = 100
"""Maximum nesting of objects and lists."""
MAX_INPUT_DEPTH = 64
"""The same for a tool's input, which is nested some levels deeper in a session file and a request."""
_MAX_DIGITS = 300
"""Maximum digits of an integer: the range of a float."""
_FLAT = frozenset((str, int, float, bool, type(None)))


class JsonLimitError(ValueError):
    """Valid JSON beyond a limit; the message completes "the JSON …"."""


def parse_json(
    text: str | bytes,
    *,
    deepest: int = DEEPEST,
    most_digits: int = _MAX_DIGITS,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Raises `json.JSONDecodeError` for invalid JSON, another `ValueError` beyond a limit."""
    if isinstance(text, bytes):
        text = text.decode("utf-8" if text.startswith(b'{"') else json.detect_encoding(text), "surrogatepass")
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("Unexpected byte order mark", text, 0)
    decoder = _decoder(most_digits)
    if object_pairs_hook is not None:
        decoder = json.JSONDecoder(object_pairs_hook=object_pairs_hook, **number_limits(most_digits))
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise JsonLimitError(f"is nested more than {deepest} levels deep") from None
    if text.count("[") + text.count("{") > deepest and is_too_deep(value, deepest=deepest):
        raise JsonLimitError(f"is nested more than {deepest} levels deep")
    return value


def number_limits(most_digits: int = _MAX_DIGITS) -> dict[str, Any]:
    """Arguments of a `json.JSONDecoder` that refuses numbers beyond the limits."""

    def integer(digits: str) -> int:
        if len(digits) > most_digits:
            raise JsonLimitError(f"has a number of {len(digits):,} digits")
        return int(digits)

    return {"parse_int": integer, "parse_float": _number, "parse_constant": _refuse_constant}


@lru_cache(maxsize=4)
def _decoder(most_digits: int) -> json.JSONDecoder:
    """Made once: session files are parsed line by line."""
    return json.JSONDecoder(**number_limits(most_digits))


def is_too_deep(value: Any, *, deepest: int = DEEPEST) -> bool:
    """Whether lists and objects are nested more than `deepest` levels."""
    # Level by level: recursion could reach the limit that this protects.
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _depth in range(deepest):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            # Most values are flat, and this check needs no call.
            if inner.__class__ not in _FLAT and isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonLimitError(f"has a number that is too large: {digits[:40]}")
    return value


def _refuse_constant(name: str) -> Any:
    raise JsonLimitError(f"has {name}, which is not a number that JSON knows")


_CAN_ASK = hasattr(os, "O_PATH")
_RESOLVE_FLAGS = getattr(os, "O_PATH", 0) | os.O_CLOEXEC


def real_path(path: str | os.PathLike[str]) -> str:
    """Like `os.path.realpath`, which checks each folder of the path, in a sixth of its time. Raises ValueError."""
    found = resolve_existing(path)
    if found is not None:
        return found
    folder, name = os.path.split(path)
    # No entry of that name, not even a link, in a folder that exists.
    if name not in ("", ".", "..") and (parent := resolve_existing(folder)) and not os.path.lexists(path):
        return os.path.join(parent, name)  # noqa: PTH118
    try:
        return os.path.realpath(path)
    except PermissionError:
        # A link that only another user may read, such as /proc/1/root.
        return os.path.abspath(path)  # noqa: PTH100


def resolve_existing(path: str | os.PathLike[str]) -> str | None:
    """The resolved path if it exists; None otherwise, and where the kernel cannot tell. Raises ValueError."""
    if not _CAN_ASK:
        return None
    try:
        descriptor = os.open(path, _RESOLVE_FLAGS)
        try:
            found = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        finally:
            os.close(descriptor)
    except OSError:
        return None
    # Anything else is not a path, or is that of a removed file.
    return found if found.startswith("/") and not found.endswith(" (deleted)") else None


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or below it. All of them are resolved already."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
SPECIAL_KINDS = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def is_kernel_file(path: str) -> bool:
    """Whether a file has no content on a disk."""
    return path.startswith(("/proc/", "/sys/", "/dev/")) and not path.startswith("/dev/shm/")  # noqa: S108


def open_folder(path: str, *, create: bool = False) -> int:
    """Open a folder without following a link and return the descriptor. Raises OSError; ELOOP if there is a link."""
    descriptor = os.open("/", _FOLDER)
    try:
        for name in filter(None, path.split("/")):
            try:
                below = _enter(name, descriptor)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
                below = _enter(name, descriptor)
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _enter(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        # The error of O_NOFOLLOW for a link differs between systems; the user should see that it was a link.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, f"the folder {name} has become a symbolic link meanwhile") from None
        raise


def open_without_links(path: str, flags: int) -> int:
    """For `open(opener=…)`: fails if any part of the name has become a link, or if it is not a regular file."""
    folder, _slash, name = path.rpartition("/")
    parent = open_folder(folder)
    try:
        return open_below(parent, name, flags)
    finally:
        os.close(parent)


def open_below(parent: int, name: str, flags: int) -> int:
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file any more")
    return descriptor
