"""Store files right after a call has written them, without scanning the rest of their folder.

Writes loose objects into a shadow repository directly: a git process for each call would cost more than the call.
Blocking; called in a thread.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path

from agentcli.core.files.bounded_read import read_bounded
from agentcli.workspace.listing import is_ignore_file, is_own_file
from agentcli.workspace.trees import TreeEntry
from agentcli.workspace.undo.restore import parents

_LARGEST = 1024 * 1024
_MOST = 20


def blob_id(content: bytes) -> str:
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def store_written(root: Path, objects: Path, paths: Sequence[str]) -> dict[str, TreeEntry] | None:
    """Store the current content of these files (relative to `root`).

    None if one of them is not a small regular file of the folder itself, or is an ignore file: then only a scan of the
    whole folder shows what has changed.
    """
    stored: dict[str, TreeEntry] = {}
    if len(paths) > _MOST:
        return None
    try:
        for path in paths:
            content = _content(root, path)
            if content is None:
                return None
            executable = (root / path).stat().st_mode & stat.S_IXUSR
            stored[path] = TreeEntry("100755" if executable else "100644", _stored(objects, content))
    except (OSError, ValueError):
        return None
    return stored


def _content(root: Path, path: str) -> bytes | None:
    if is_ignore_file(path) or is_own_file(path) or os.path.realpath(root / path) != str(root / path):
        return None
    if any(os.path.lexists(root / parent / ".git") for parent in parents(path)):
        return None
    status = os.lstat(root / path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        return None
    content = read_bounded(root / path, _LARGEST)
    return content if isinstance(content, bytes) else None


def _stored(objects: Path, content: bytes) -> str:
    oid = blob_id(content)
    place = objects / oid[:2] / oid[2:]
    if not place.exists():
        place.parent.mkdir(mode=0o700, exist_ok=True)
        temporary = place.with_name(f"tmp_obj_{oid[2:]}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(zlib.compress(b"blob %d\0" % len(content) + content, 1))
        temporary.replace(place)
    return oid
