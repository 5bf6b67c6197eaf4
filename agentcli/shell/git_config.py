"""Git repositories: programs that their configuration runs, files that git obeys, and their top folder.

Reads files only and starts no program but git's own parser of its configuration.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agentcli.core.files.access import Reason, Unread, read_bounded
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
_MAX_JUDGEMENTS = 200
_MAX_INDEX = 64 * 1024 * 1024
_SUBMODULE_MODE = b"\0\0\xe0\0"
"""Mode 160000 as stored in the index."""

# ------------------------------------------------------------------------------------------------ one repository


_Signatures = dict[str, tuple[int, ...] | None]


@frozen
class _Judgement:
    signatures: _Signatures
    """The signature of each file that decided, taken before it was read."""
    reason: str | None


_judgements: dict[tuple[str, tuple[str, ...]], _Judgement] = {}


def runs_programs(folder: Path, working_dirs: Iterable[str] = ()) -> str | None:
    """The setting by which a folder's repository makes git run a program; None if there is none.

    An unreadable file counts as dangerous. Cached until one of the files involved changes, because every git command
    asks, and a new judgement starts git and reads the whole index.
    """
    key = (str(folder), tuple(working_dirs))
    known = _judgements.get(key)
    if known is not None and all(_sign(path) == signature for path, signature in known.signatures.items()):
        return known.reason
    seen: _Signatures = {}
    reason = _judge(folder, git_program(key[1]), seen)
    if len(_judgements) >= _MAX_JUDGEMENTS:
        _judgements.clear()
    _judgements[key] = _Judgement(seen, reason)
    return reason


def _sign(path: str) -> tuple[int, ...] | None:
    """A file's identity and times. They change with every write, because no program can set the change time (ctime)."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called often, and building a Path takes longer than this call
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def _record(seen: _Signatures, path: Path) -> None:
    """Keep the first signature of a path, which precedes every read of it."""
    if (name := str(path)) not in seen:
        seen[name] = _sign(name)


def _judge(folder: Path, program: str | None, seen: _Signatures) -> str | None:
    """Check each `.git` from the folder upwards until git confirms which one it uses.

    Git runs only after the configuration was found harmless, so that it reads neither an include nor a pipe.
    """
    answer: Path | str | None = ""
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        _record(seen, dot_git)
        if not os.path.lexists(dot_git):
            continue
        if program is None:
            return "its git configuration cannot be read"
        found = resolve_dot_git(dot_git)
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


def _submodule_objection(git_dir: Path, seen: _Signatures) -> str | None:
    """Reason for a repository with submodules, whose configuration `git status` and `git diff` obey, too."""
    index = git_dir / "index"
    _record(seen, index)
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


def resolve_dot_git(dot_git: Path) -> Path | None:
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


def _objection(git_dir: Path, program: str, seen: _Signatures) -> str | None:
    for path in (git_dir / "HEAD", git_dir / "commondir"):
        _record(seen, path)
    if os.path.lexists(git_dir / "HEAD") and _is_special(git_dir / "HEAD"):
        return f"{git_dir / 'HEAD'} is not a regular file"
    common = common_folder(git_dir)
    if common is None:
        return f"{git_dir / 'commondir'} cannot be read"
    # Git accepts it as a repository only with the folders in `common`.
    _record(seen, common)
    for path in dict.fromkeys((common / "config", git_dir / "config.worktree", common / "config.worktree")):
        _record(seen, path)
        if not os.path.lexists(path):
            continue
        data = read_regular(path)
        if data is None:
            return f"{path} cannot be read"
        dangerous = first_dangerous(data, program, _list_accepted(data, git_dir, program, seen))
        if dangerous is not None:
            return f"its configuration sets {dangerous}"
    return None


def common_folder(git_dir: Path) -> Path | None:
    """The git directory that a worktree's one shares configuration with, or itself; None if that cannot be read."""
    if not os.path.lexists(git_dir / "commondir"):
        return git_dir
    data = read_regular(git_dir / "commondir")
    return None if data is None else git_dir / os.fsdecode(data.rstrip(b"\r\n").replace(b"\0", b""))


def _list_accepted(data: bytes, git_dir: Path, program: str, seen: _Signatures) -> list[Setting]:
    """Settings that no read-only command obeys.

    These are aliases, which never replace git's own commands, and a submodule's `core.worktree` if the folder it names
    points back here.
    """
    accepted = []
    for key, value in list_settings(data, program) or ():
        if key == "core.worktree":
            _record(seen, git_dir / value / ".git")
        if key.startswith("alias.") or (key == "core.worktree" and points_back(git_dir, value)):
            accepted.append((key, value))
    return accepted


def points_back(git_dir: Path, worktree: str) -> bool:
    """Whether the work tree that a git directory names points back to that git directory."""
    back = resolve_dot_git(git_dir / worktree / ".git")
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


def completes_repository(names: Iterable[str]) -> bool:
    """Whether git treats a folder with these names in it as a git directory."""
    held = frozenset(names)
    return "HEAD" in held and ("commondir" in held or held >= {"objects", "refs"})


def is_repository(dot_git: Path) -> bool:
    """Whether a `.git` leads to a git directory, judged by the names in it."""
    found = resolve_dot_git(dot_git) if os.path.lexists(dot_git) else None
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


def steers_git(paths: Sequence[str]) -> bool:
    """Whether git may obey files written to these paths: because of their names, or because they form a repository.

    `HEAD` alone is enough, because later parts of the command may create the rest of the repository.
    """
    if any(_OBEYED_NAMES.fullmatch(os.path.basename(path)) for path in paths):  # noqa: PTH119
        return True
    return any(held & {"HEAD", "commondir"} or held >= {"objects", "refs"} for held in _control_names(paths))


def builds_repository(paths: Sequence[str]) -> bool:
    """Whether git takes a folder for a repository once files or folders are made at all of these paths."""
    return any(map(completes_repository, _control_names(paths)))


def _control_names(paths: Iterable[str]) -> list[set[str]]:
    """The names of a repository in each folder where one of these paths makes one, with those already there."""
    written: dict[str, set[str]] = {}
    for path in paths:
        parent, name = os.path.split(path)
        while name:
            if name in CONTROL_NAMES:
                written.setdefault(parent, set()).add(name)
            parent, name = os.path.split(parent)
    return [{*names, *_present(parent)} for parent, names in written.items()]


def hooks_folders(working_dirs: Iterable[str | Path]) -> tuple[str, ...]:
    """Existing or missing folders inside the working directories that `core.hooksPath` of their repositories names."""
    roots = [str(folder) for folder in working_dirs]
    found: dict[str, None] = {}
    for root in roots:
        for folder in _hooks_of(root, tuple(roots)):
            if any(folder.startswith(base.rstrip("/") + "/") for base in roots):
                found[folder] = None
    return tuple(found)


def _hooks_of(root: str, working_dirs: tuple[str, ...]) -> Iterator[str]:
    dot_git = next((dot_git for text, dot_git in possible_dot_gits(root) if os.path.lexists(text)), None)
    if dot_git is None or (git_dir := resolve_dot_git(dot_git)) is None:
        return
    for path in ((common_folder(git_dir) or git_dir) / "config", git_dir / "config.worktree"):
        data = read_regular(path)
        # Git ignores the case of keys but never splits them, so without this word there is no such setting.
        if data is not None and b"hookspath" in data.lower():
            for value in _hooks_paths(data, git_program(working_dirs)):
                yield os.path.normpath(os.path.join(dot_git.parent, os.path.expanduser(value)))  # noqa: PTH111, PTH118


@functools.lru_cache(maxsize=32)
def _hooks_paths(data: bytes, program: str | None) -> tuple[str, ...]:
    """`core.hooksPath` in a configuration. Cached, because git's parser runs and this precedes every command."""
    settings = list_settings(data, program) or ()
    return tuple(value for key, value in settings if key == "core.hookspath" and value and "\0" not in value)


@functools.lru_cache(maxsize=32)
def possible_dot_gits(folder: str | Path) -> tuple[tuple[str, Path], ...]:
    """The path of `.git` in a folder and in each of its parents, as text and as `Path`.

    Cached: they are checked before every command, and building the paths takes longer than checking them.
    """
    return tuple((str(path), path) for path in (place / ".git" for place in (Path(folder), *Path(folder).parents)))


_STEERING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES")


def toplevel(folder: str) -> str | None:
    """The folder that `git rev-parse --show-toplevel` prints, if it prints one; None if uncertain."""
    dot_git = next((place / ".git" for place in _and_above(folder) if is_repository(place / ".git")), None)
    git_dir = None if dot_git is None else resolve_dot_git(dot_git)
    if dot_git is None or git_dir is None or any(name in os.environ for name in _STEERING):
        return None
    for name in ("config", "config.worktree"):
        data = read_regular(git_dir / name)
        if data is None and os.path.lexists(git_dir / name):
            return None
        # core.worktree, or included settings.
        if data is not None and re.search(rb"worktree|\[\s*include", data, re.IGNORECASE):
            return None
    head = read_regular(git_dir / "HEAD")
    # With any other HEAD git does not treat it as a repository and searches the parents.
    return str(dot_git.parent) if head is not None and re.match(rb"ref:\s*refs/|[0-9a-f]{40}", head) else None


def _and_above(folder: str) -> tuple[Path, ...]:
    path = Path(os.path.realpath(folder))
    return (path, *path.parents)
