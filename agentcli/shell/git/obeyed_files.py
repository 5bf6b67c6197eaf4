"""Files that git obeys outside of `.git`: those of bare repositories, and the folder that `core.hooksPath` names.

A folder is a repository as soon as it contains `HEAD`, `objects` and `refs`, whatever its name; the user's next `git
status` in it then obeys its `config`. Reads the file system, changes nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.core.git.run import git_program
from agentcli.core.git.settings import list_settings
from agentcli.shell.git.config import pointed_at, read_regular, signature

CONTROL_NAMES = frozenset(
    {"HEAD", "config", "config.worktree", "commondir", "gitdir", "objects", "refs", "packed-refs", "hooks", "info"}
)
_OBEYED_NAMES = re.compile(r"\.git(?!ignore\Z|keep\Z).*|\.lfsconfig", re.DOTALL | re.IGNORECASE)
_MOST_ANCESTORS = 40
_hooks: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {}


def completes_repository(names: Iterable[str]) -> bool:
    """Whether git treats a folder with these names in it as a git directory."""
    held = frozenset(names)
    return "HEAD" in held and ("commondir" in held or held >= {"objects", "refs"})


def is_repository(dot_git: Path) -> bool:
    """Whether a `.git` leads to a git directory, judged by the names in it."""
    found = pointed_at(dot_git) if os.path.lexists(dot_git) else None
    return found is not None and completes_repository(_present(found))


def _present(folder: Path | str) -> list[str]:
    return [
        name
        for name in ("HEAD", "objects", "refs", "commondir")
        if os.path.lexists(os.path.join(folder, name))  # noqa: PTH118
    ]


def obeyed_by_git(path: str, working_dirs: Sequence[str], hooks: Sequence[str]) -> bool:
    """Whether git obeys a file at this path below the working directories although it is not in a `.git` folder.

    Also true for a write that would turn a folder into a repository. `hooks`: from `hooks_folders`.
    """
    roots = [folder.rstrip("/") for folder in working_dirs]
    below = any(path.startswith(root + "/") for root in roots)
    if not below:
        return False
    for folder in hooks:
        if path == folder or path.startswith(folder + "/"):
            return True
    parent, name = os.path.split(path)
    for _ancestor in range(_MOST_ANCESTORS):
        if name in CONTROL_NAMES and completes_repository((name, *_present(parent))):
            return True
        if parent in roots or parent in ("", "/"):
            return False
        parent, name = os.path.split(parent)
    return True


def steers_git(paths: Iterable[str]) -> bool:
    """Whether git may obey files written to these paths: because of their names, or because they form a repository.

    `HEAD` alone is enough, because later parts of the command may create the rest of the repository.
    """
    written: dict[str, set[str]] = {}
    for path in paths:
        parent, name = os.path.split(path)
        if _OBEYED_NAMES.fullmatch(name):
            return True
        for _ancestor in range(_MOST_ANCESTORS):
            if name in CONTROL_NAMES:
                written.setdefault(parent, set()).add(name)
            if parent in ("", "/"):
                break
            parent, name = os.path.split(parent)
        else:
            return True
    for parent, names in written.items():
        held = {*names, *_present(parent)}
        if held & {"HEAD", "commondir"} or held >= {"objects", "refs"}:
            return True
    return False


def hooks_folders(working_dirs: Iterable[str | Path]) -> tuple[str, ...]:
    """Existing or missing folders inside the working directories that `core.hooksPath` of their repositories names."""
    roots = [str(folder) for folder in working_dirs]
    found: dict[str, None] = {}
    for root in roots:
        for folder in _hooks_of(root, tuple(roots)):
            if any(folder.startswith(base.rstrip("/") + "/") for base in roots):
                found[folder] = None
    return tuple(found)


def _hooks_of(root: str, working_dirs: tuple[str, ...]) -> tuple[str, ...]:
    dot_git = _nearest(root)
    if dot_git is None or (git_dir := pointed_at(dot_git)) is None:
        return ()
    common = git_dir
    if (pointer := read_regular(git_dir / "commondir")) is not None:
        common = git_dir / os.fsdecode(pointer.rstrip(b"\r\n").replace(b"\0", b""))
    files = (common / "config", git_dir / "config.worktree")
    state = tuple(signature(path) for path in files)
    known = _hooks.get(root)
    if known is not None and known[0] == state:
        return known[1]
    folders: list[str] = []
    for path in files:
        data = read_regular(path)
        # Git ignores the case of keys but never splits them, so without this word there is no such setting.
        if data is None or b"hookspath" not in data.lower():
            continue
        for key, value in list_settings(data, git_program(working_dirs)) or ():
            if key == "core.hookspath" and value and "\0" not in value:
                named = os.path.join(dot_git.parent, os.path.expanduser(value))  # noqa: PTH111, PTH118
                folders.append(os.path.normpath(named))
    if len(_hooks) > 100:
        _hooks.clear()
    _hooks[root] = (state, tuple(folders))
    return tuple(folders)


def _nearest(root: str) -> Path | None:
    return next((dot_git for text, dot_git in possible_dot_gits(root) if os.path.lexists(text)), None)


@functools.lru_cache(maxsize=32)
def possible_dot_gits(folder: str | Path) -> tuple[tuple[str, Path], ...]:
    """The path of `.git` in a folder and in each of its parents, as text and as `Path`.

    Cached: they are checked before every command, and building the paths takes longer than checking them.
    """
    return tuple((str(path), path) for path in (place / ".git" for place in (Path(folder), *Path(folder).parents)))
