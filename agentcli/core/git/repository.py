"""The repository around a folder, unless another user of the machine put it into a shared parent such as /tmp.

Like git's `safe.directory`: the root and its `.git` must belong to the user (with sudo, to the user who called it).
Root, and the owner of the folder in which agentcli was started, count too: a container mounts a checkout of another
user id, and whoever starts there has chosen the folder. The trust question covers what its files would do.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from agentcli.core.files.access import read_start

_MAX_POINTER = 1 << 20


def repository_root(folder: str | os.PathLike[str]) -> Path | None:
    """Root of the innermost repository around a resolved folder; None if there is none, or another user's."""
    root = _innermost(folder)
    return Path(root) if root is not None and _is_own(root, folder) else None


def foreign_repository(folder: str | os.PathLike[str]) -> str | None:
    """Root of the repository around a resolved folder that does not count, because it is another user's."""
    root = _innermost(folder)
    return None if root is None or _is_own(root, folder) else root


def git_folder(root: Path) -> tuple[Path, Path]:
    """The git folder of a work tree, and the common git folder of all its work trees (often the same)."""
    folder = root / ".git"
    if (pointer := read_start(folder, _MAX_POINTER)).startswith("gitdir:"):
        folder = folder.parent / pointer.removeprefix("gitdir:").strip()
    # A linked work tree has its own HEAD and shares the references.
    shared = read_start(folder / "commondir", _MAX_POINTER).strip()
    return folder, folder / shared if shared else folder


def find_own_users(folder: str | os.PathLike[str]) -> set[int]:
    """Ids of the users whose files count when agentcli is started in a folder."""
    user = os.geteuid()
    found = {0, user}
    if user == 0 and (caller := os.environ.get("SUDO_UID", "")).isdecimal():
        found.add(int(caller))
    with contextlib.suppress(OSError):
        found.add(os.stat(folder).st_uid)  # noqa: PTH116
    return found


def _innermost(folder: str | os.PathLike[str]) -> str | None:
    # Called a dozen times per engine; pathlib would take three times as long.
    place = os.fspath(folder)
    while not os.path.exists(os.path.join(place, ".git")):  # noqa: PTH110, PTH118
        parent = os.path.dirname(place)  # noqa: PTH120
        if parent == place:
            return None
        place = parent
    return place


def _is_own(root: str, folder: str | os.PathLike[str]) -> bool:
    if root == os.fspath(folder):
        return True
    users = find_own_users(folder)
    try:
        top, dot_git = os.lstat(root), os.lstat(f"{root}/.git")
    except OSError:
        return False
    # Everybody may put files into a folder with the sticky bit, whoever owns its `.git`.
    return {top.st_uid, dot_git.st_uid} <= users and not top.st_mode & stat.S_ISVTX
