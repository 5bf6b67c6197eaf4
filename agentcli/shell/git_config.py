"""Git repositories: programs that their configuration runs, files that git obeys, and their top folder.

Reads files only and starts no program but git's own parser of its configuration.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.git.run import git_program, run_git
from agentcli.core.git.settings import Setting, first_dangerous, list_settings

_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
"""Options of git itself that take the next word as their value."""


def subcommand_index(words: Sequence[str]) -> int:
    """Index of git's sub-command among words that begin with `git`; the number of words if there is none."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _VALUES else 1
    return min(index, len(words))


MAX_BYTES = 256 * 1024
_SECONDS = 1.0
_MAX_REMEMBERED = 200
_MAX_INDEX = 64 * 1024 * 1024
_SUBMODULE_MODE = b"\0\0\xe0\0"
"""Mode 160000 as stored in the index."""

# ------------------------------------------------------------------------------------------------ one repository


@frozen
class _Judged:
    seen: tuple[tuple[str, object], ...]
    reason: str | None


_judged: dict[tuple[str, tuple[str, ...]], _Judged] = {}


def runs_programs(folder: Path, working_dirs: Iterable[str] = ()) -> str | None:
    """The setting by which a folder's repository makes git run a program; None if there is none.

    An unreadable file counts as dangerous. Cached until one of the files involved changes.
    """
    key = (str(folder), tuple(working_dirs))
    judged = _judged.get(key)
    if judged is not None and all(signature(path) == was for path, was in judged.seen):
        return judged.reason
    seen: dict[str, object] = {}
    reason = _judge(folder, git_program(key[1]), seen)
    if len(_judged) >= _MAX_REMEMBERED:
        _judged.clear()
    _judged[key] = _Judged(tuple(seen.items()), reason)
    return reason


def signature(path: str | Path) -> tuple[int, ...] | None:
    """A file's identity and times. It changes with every write, because no program can set the change time (ctime)."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called often, and a Path costs more than the look
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def _judge(folder: Path, program: str | None, seen: dict[str, object]) -> str | None:
    """Check each `.git` from the folder upwards until git confirms which one it uses.

    Git runs only after the configuration was found harmless, so that it reads neither an include nor a pipe.
    """
    answer: Path | str | None = ""
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        seen[str(dot_git)] = signature(dot_git)
        if not os.path.lexists(dot_git):
            continue
        if program is None:
            return "its git configuration cannot be read"
        found = pointed_at(dot_git)
        if found is None:
            return f"{dot_git} cannot be read"
        if (reason := _objection(found, program, seen)) is not None:
            return reason
        if answer == "":
            answer = _git_dir_in_use(folder, program)
        if isinstance(answer, str):
            return answer
        if answer is not None and answer == Path(os.path.realpath(found)):
            return _submodule_objection(found, seen)
    # A bare repository; the caller recognises it by its files.
    return None


def _submodule_objection(git_dir: Path, seen: dict[str, object]) -> str | None:
    """Reason for a repository with submodules, whose configuration `git status` and `git diff` obey, too."""
    index = git_dir / "index"
    seen[str(index)] = signature(index)
    data = read_bounded(index, _MAX_INDEX)
    if isinstance(data, Unread):
        return None if data.reason is Reason.MISSING else f"{index} cannot be read"
    # With a shared index, the entries are elsewhere.
    has_submodules = _SUBMODULE_MODE in data or b"link" in data
    return "its submodules may make git run programs" if has_submodules else None


def _git_dir_in_use(folder: Path, program: str) -> Path | str | None:
    """The git directory that git uses in a folder; None: no repository; a text: why it is unknown."""
    try:
        done = run_git(program, ("rev-parse", "--absolute-git-dir"), folder, _SECONDS)
    except OSError:
        return "the repository that git would use is unknown"
    if done.code == 0:
        return Path(os.path.realpath(os.fsdecode(done.output.removesuffix(b"\n"))))
    return None if b"not a git repository" in done.errors else "git does not accept it as a repository"


def pointed_at(dot_git: Path) -> Path | None:
    """The git directory that a `.git` denotes: itself, or the target of a `.git` file.

    As in git, only line ends are stripped: a trailing blank belongs to the name.
    """
    if dot_git.is_dir():
        return dot_git
    data = read_regular(dot_git)
    if data is None or not data.startswith(b"gitdir: "):
        return None
    target = os.fsdecode(data[len(b"gitdir: ") :].rstrip(b"\r\n"))
    return None if "\0" in target or not target else dot_git.parent / target


def _objection(git_dir: Path, program: str, seen: dict[str, object]) -> str | None:
    common = git_dir
    for name in ("HEAD", "commondir", "config", "config.worktree"):
        seen[str(git_dir / name)] = signature(git_dir / name)
    if os.path.lexists(git_dir / "HEAD") and _is_special(git_dir / "HEAD"):
        return f"{git_dir / 'HEAD'} is not a regular file"
    if os.path.lexists(git_dir / "commondir"):
        data = read_regular(git_dir / "commondir")
        if data is None:
            return f"{git_dir / 'commondir'} cannot be read"
        common = git_dir / os.fsdecode(data.rstrip(b"\r\n").replace(b"\0", b""))
    for path in dict.fromkeys((common / "config", git_dir / "config.worktree", common / "config.worktree")):
        seen[str(path)] = signature(path)
        if not os.path.lexists(path):
            continue
        data = read_regular(path)
        if data is None:
            return f"{path} cannot be read"
        dangerous = first_dangerous(data, program, _accepted(data, git_dir, program))
        if dangerous is not None:
            return f"its configuration sets {dangerous}"
    return None


def _accepted(data: bytes, git_dir: Path, program: str) -> list[Setting]:
    """Settings that no read-only command obeys.

    These are aliases, which never replace git's own commands, and a submodule's `core.worktree` if the folder it names
    points back here.
    """
    accepted = []
    for key, value in list_settings(data, program) or ():
        if key.startswith("alias.") or (key == "core.worktree" and points_back(git_dir, value)):
            accepted.append((key, value))
    return accepted


def points_back(git_dir: Path, worktree: str) -> bool:
    """Whether the work tree that a git directory names points back to that git directory."""
    back = pointed_at(git_dir / worktree / ".git")
    return back is not None and os.path.realpath(back) == os.path.realpath(git_dir)


def _is_special(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        # A dangling link: git takes it for a branch.
        return False


def read_regular(path: Path) -> bytes | None:
    """A file's bytes; None if it is missing, not a regular file, or too large for a configuration."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = os.read(descriptor, MAX_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_BYTES else None


CONTROL_NAMES = frozenset(
    {"HEAD", "config", "config.worktree", "commondir", "gitdir", "objects", "refs", "packed-refs", "hooks", "info"}
)
_OBEYED_NAMES = re.compile(r"\.git(?!ignore\Z|keep\Z).*|\.lfsconfig", re.DOTALL | re.IGNORECASE)
_MAX_ANCESTORS = 40
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
    for _ancestor in range(_MAX_ANCESTORS):
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
        for _ancestor in range(_MAX_ANCESTORS):
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
