"""Restricted files that a git repository contains, in its index or anywhere in its history.

A denied file that was once committed is shown by `git show` and `git log -p` even if it is hidden on disk. Git itself
is run to find such files, but obeys nothing in the repository: no configuration of the user or the system, no hooks, no
monitor, no signature program, no transport for missing objects. After a short timeout the result is unknown, and the
command needs approval.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.files.bounded_read import read_start
from agentcli.core.git.run import git_settings, run_git
from agentcli.core.processes.own_programs import find_program
from agentcli.shell.denied_files import name_glob

_SECONDS = 1.0
"""Timeout of one lookup, during which the program waits. Most take a few milliseconds."""
_MOST_NAMES = 200
_MOST_REFS = 2_000
_MOST_KEPT = 16
_HISTORY = ("log", "--all", "--reflog", "--full-history", "-m", "--no-renames", "--no-ext-diff", "--no-textconv",
            "--no-show-signature", "--format=", "--name-only", "-z")  # fmt: skip


class TrackedFiles:
    """Cached lookups of tracked files, valid while the repository's index and references are unchanged."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[str, ...] | None] = {}

    def matching(
        self,
        folder: str,
        specs: tuple[str, ...],
        hides: Callable[[str], bool],
        working_dirs: tuple[str, ...],
        search_path: str | None,
    ) -> tuple[str, ...] | None:
        """Absolute paths of tracked files, past and present, for which `hides` is true; None if unknown."""
        top = _repository(folder)
        if top is None:
            return ()
        state = _state(top)
        key = (top, specs, working_dirs, state)
        if state is not None and key in self._kept:
            return self._kept[key]
        git = find_program("git", search_path, map(Path, working_dirs))
        found = None if git is None else _matching(git, (top, *working_dirs), folder, specs, hides)
        if state is not None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found


def _matching(
    git: str, bases: Iterable[str], folder: str, specs: tuple[str, ...], hides: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """Look up matching files. `bases`: the work tree may be elsewhere than around its .git."""
    found: dict[str, None] = {}
    pathspecs = list(_pathspecs(specs))
    deadline = time.monotonic() + _SECONDS
    for command in (("ls-files", "-z", "--full-name"), _HISTORY):
        listed = run_neutral_git(git, (*command, "--", *pathspecs), folder, deadline - time.monotonic())
        if listed is None:
            return None
        # The history has a line break between two commits.
        names = list(dict.fromkeys(name.strip("\n") for name in listed if name.strip("\n")))
        for base in dict.fromkeys(bases):
            paths = (f"{base.rstrip('/')}/{name}" for name in names)
            found.update((path, None) for path in paths if path not in found and hides(path))
    return tuple(found)[:_MOST_NAMES]


def has_tracked_files(
    folder: Path, search_path: str | None, working_dirs: Iterable[Path]
) -> bool | Literal["no repository", "unknown"]:
    """Whether git's index has files in a folder."""
    if _repository(str(folder.parent)) is None:
        return "no repository"
    git = find_program("git", search_path, working_dirs)
    command = ("ls-files", "-z", "--", f":(literal,icase){folder.name}")
    names = None if git is None else run_neutral_git(git, command, str(folder.parent), _SECONDS)
    return "unknown" if names is None else bool(names)


def run_neutral_git(git: str, arguments: Sequence[str], folder: str, seconds: float) -> list[str] | None:
    """Run git without obeying the repository; return the NUL-separated names it prints, or None if it fails."""
    try:
        # Only a comparison with the work tree runs filters.
        settings = git_settings(git, folder) if arguments[0] == "diff" else ()
        done = run_git(git, arguments, folder, max(seconds, 0.0), settings=settings)
    except (OSError, ValueError):
        return None
    return [os.fsdecode(name) for name in done.output.split(b"\0") if name] if done.code == 0 else None


def _pathspecs(specs: tuple[str, ...]) -> Iterator[str]:
    for name in dict.fromkeys(map(name_glob, specs)):
        loose = re.sub(r"[\\\[\]]", "?", name)
        yield f":(top,icase,glob)**/{loose}"
        yield f":(top,icase,glob)**/{loose}/**"


def _repository(folder: str) -> str | None:
    """The nearest folder with a `.git`, from this one upwards; None if there is none."""
    path = Path(os.path.realpath(folder))
    return next((str(place) for place in (path, *path.parents) if os.path.lexists(place / ".git")), None)


def _state(top: str) -> tuple[object, ...] | None:
    """A value that changes with the index and every reference; None if collecting it takes too long."""
    git = Path(top, ".git")
    folders = [git]
    if git.is_file():
        # A linked worktree: its own references and the shared ones.
        try:
            pointer = read_start(git)
            own = (git.parent / pointer.removeprefix("gitdir:").strip()).resolve()
            folders = [own, own.parent.parent]
        except (OSError, ValueError):
            return None
    seen: list[object] = []
    for place in folders:
        seen += (_stamp(place / name) for name in ("index", "HEAD", "packed-refs", "logs/HEAD", "logs/refs/stash"))
        waiting = [str(place / "refs")]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                seen.append((entry.path, _stamp(Path(entry.path))))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
            if len(seen) > _MOST_REFS:
                return None
    return tuple(seen)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
