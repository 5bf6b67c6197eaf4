"""The checked-out commit of a repository, read from its files: git itself would obey the repository's settings.

Reads the beginning of a few small regular files, and changes nothing. Blocking; called in a thread.
"""

from __future__ import annotations

import re
from pathlib import Path

from agentcli.core.files.bounded_read import read_start
from agentcli.core.git.repository import git_folder, repository_root

_MOST = 1 << 20
_DEEPEST = 5
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[^\0\s\\:?*\[~^]{1,500}")


def head_commit(root: Path) -> str | None:
    """The checked-out commit of the repository around this folder; None if there is none or it is unreadable."""
    top = repository_root(root)
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


def _packed(folder: Path, name: str) -> str:
    for line in _text(folder / "packed-refs").splitlines():
        commit, _space, reference = line.partition(" ")
        if reference == name:
            return commit
    return ""


def _text(path: Path) -> str:
    return read_start(path, _MOST)
