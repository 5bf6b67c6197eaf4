"""The top folder of a repository, as git prints it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentcli.shell.git.config import pointed_at, read_regular
from agentcli.shell.git.obeyed_files import is_repository

_STEERING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES")


def toplevel(folder: str) -> str | None:
    """The folder that `git rev-parse --show-toplevel` prints, if it prints one; None if uncertain."""
    found = _governing(folder)
    if found is None or any(name in os.environ for name in _STEERING):
        return None
    top, git_dir = found
    for name in ("config", "config.worktree"):
        data = read_regular(git_dir / name)
        if data is None:
            if os.path.lexists(git_dir / name):
                return None
            continue
        # core.worktree, or included settings.
        if re.search(rb"worktree|\[\s*include", data, re.IGNORECASE):
            return None
    head = read_regular(git_dir / "HEAD")
    # With any other HEAD git does not treat it as a repository and searches the parents.
    return str(top) if head is not None and re.match(rb"ref:\s*refs/|[0-9a-f]{40}", head) else None


def _governing(folder: str) -> tuple[Path, Path] | None:
    path = Path(os.path.realpath(folder))
    for place in (path, *path.parents):
        if is_repository(place / ".git"):
            git_dir = pointed_at(place / ".git")
            return None if git_dir is None else (place, git_dir)
    return None
