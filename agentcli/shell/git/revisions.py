"""Output of git that the files of a repository determine: its top folder, and the names of its references."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentcli.core.files.bounded_read import Unread, read_bounded
from agentcli.core.git.run import git_program
from agentcli.core.processes.own_programs import run_program
from agentcli.shell.git.config import pointed_at, read_regular
from agentcli.shell.git.obeyed_files import is_repository

_MOST_BYTES = 2_000_000
_MOST_REFERENCES = 4_000
_SECONDS = 1.0
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


def references_are_plain(folder: str, home: str, working_dirs: tuple[str, ...]) -> bool:
    """Whether no reference looks like an option, and git log prints only hashes, without signature text."""
    found = _governing(folder)
    if found is None or any(name in os.environ for name in _STEERING):
        return False
    git_dir = found[1]
    pointer = read_regular(git_dir / "commondir")
    common = git_dir / os.fsdecode(pointer.rstrip(b"\r\n").replace(b"\0", b"")) if pointer is not None else git_dir
    if os.path.lexists(common / "reftable"):
        return False
    head = read_regular(git_dir / "HEAD")
    packed = read_bounded(common / "packed-refs", _MOST_BYTES) if os.path.lexists(common / "packed-refs") else b""
    if head is None or isinstance(packed, Unread) or b"/-" in packed or b"/-" in head:
        return False
    return all(map(_no_dashes, {common / "refs", git_dir / "refs"})) and _shows_no_signatures(
        folder, home, working_dirs
    )


def _governing(folder: str) -> tuple[Path, Path] | None:
    path = Path(os.path.realpath(folder))
    for place in (path, *path.parents):
        if is_repository(place / ".git"):
            git_dir = pointed_at(place / ".git")
            return None if git_dir is None else (place, git_dir)
    return None


def _no_dashes(folder: Path) -> bool:
    waiting, seen = [str(folder)], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_REFERENCES or entry.name.startswith("-"):
                        return False
                    if entry.is_dir():
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _shows_no_signatures(folder: str, home: str, working_dirs: tuple[str, ...]) -> bool:
    """Whether git log does not show signatures: gpg's text about a commit is chosen by its author."""
    git = git_program(working_dirs)
    if git is None:
        return False
    environ = {"PATH": os.defpath, "HOME": home or os.environ.get("HOME", ""), "LC_ALL": "C"}
    environ |= {name: os.environ[name] for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL") if name in os.environ}
    try:
        done = run_program([git, "config", "--get", "log.showSignature"], cwd=folder, environ=environ, seconds=_SECONDS)
    except (OSError, ValueError):
        return False
    return done.code == 1 or (done.code == 0 and done.output.strip() == b"false")
