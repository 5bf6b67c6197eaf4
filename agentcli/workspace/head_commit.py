"""The checked-out commit of a repository, read from its files: git itself would obey the repository's settings.

Reads the beginning of a few small regular files, and changes nothing. Blocking; called in a thread.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentcli.core.files.bounded_read import read_start

_MOST = 1 << 20
_DEEPEST = 5
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[^\0\s\\:?*\[~^]{1,500}")


def head_commit(root: Path) -> str | None:
    """The checked-out commit of the repository around this folder; None if there is none or it is unreadable."""
    top = work_tree(root)
    if top is None:
        return None
    folder, shared = git_folder(top)
    places = list(dict.fromkeys((folder, shared)))
    said = _text(folder / "HEAD").strip()
    for _step in range(_DEEPEST):
        if _COMMIT.fullmatch(said):
            return said
        name = said.removeprefix("ref:").strip()
        if not said.startswith("ref:") or not _REFERENCE.fullmatch(name) or ".." in name:
            return None
        said = next((text for place in places if (text := _text(place / name).strip())), "")
        said = said or next((text for place in places if (text := _packed(place, name))), "")
    return None


def work_tree(folder: Path) -> Path | None:
    """The root of the repository that contains a folder; None if there is none."""
    return next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)


def git_folder(top: Path) -> tuple[Path, Path]:
    """The git folder of a work tree, and the common git folder of all its work trees (often the same)."""
    folder = top / ".git"
    if (pointer := _text(folder)).startswith("gitdir:"):
        folder = folder.parent / pointer.removeprefix("gitdir:").strip()
    # A linked work tree has its own HEAD and shares the references.
    shared = _text(folder / "commondir").strip()
    return folder, folder / shared if shared else folder


def _packed(folder: Path, name: str) -> str:
    for line in _text(folder / "packed-refs").splitlines():
        commit, _space, reference = line.partition(" ")
        if reference == name:
            return commit
    return ""


def _text(path: Path) -> str:
    return read_start(path, _MOST)
