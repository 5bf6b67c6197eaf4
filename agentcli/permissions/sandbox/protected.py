"""The paths inside writable folders that other programs run or obey (S5, S12): which are there, which could be planted.

Knows names and git's layout; mounts nothing and changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from agentcli.core.bounded_read import read_start
from agentcli.core.frozen import frozen
from agentcli.permissions.protected_names import FIXED_FILES, FIXED_FOLDERS

FOLDERS = FIXED_FOLDERS
FILES = FIXED_FILES
HOME_FILES: tuple[str, ...] = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".inputrc",
    ".config/fish",
    ".config/git",
    ".config/autostart",
    ".config/systemd",
    ".local/bin",
)
"""Only where the home folder itself, or one above it, is a working directory."""
_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_ACTIVATE = ("activate", "activate.fish", "activate.csh", "activate.ps1", "Activate.ps1", "activate_this.py")
_MOST_MODULES = 16
"""Submodules, and as many linked worktrees. Five mounts each, of 0.1 to 0.3 ms, so more are read-only as one."""
_MOST_POINTERS = 16
_MOST_FOLDERS = 300
_DEEPEST = 6
_MOST_CONFIG = 1 << 20

_USES_GIT = re.compile(r"(?<![\w./-])(?:[\w./-]*/)?(?:git|gh|jj|tig|lazygit|hub)(?![\w./-])")
_ELSEWHERE = re.compile(r"^[^#;\n]*\b(?:worktree\s*=|bare\s*=\s*[^f\s]|bare\s*$|include)", re.MULTILINE | re.IGNORECASE)
_WORKTREE = re.compile(r'^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$', re.MULTILINE | re.IGNORECASE)
_WRAPPERS = frozenset({"command", "env", "exec", "nice", "nohup", "stdbuf", "time", "timeout", "xargs"})
_SHELLS = frozenset({"bash", "dash", "eval", "sh", "zsh"})
_GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
_MAKES_REPOSITORY = re.compile(r"(?<![\w.-])git\b[^;&|\n]*\s(?:init|clone)\b")


@frozen
class Protection:
    writable: tuple[Path, ...] = ()
    """Folders that have to be mounts of their own and writable: a mount cannot be moved away, its contents could."""
    read_only: tuple[Path, ...] = ()
    """What is there."""
    missing: tuple[Path, ...] = ()
    """What is not there and must not be made."""
    missing_files: tuple[tuple[Path, str], ...] = ()
    """The same where an empty folder would be in the way: with what a file in its place holds to mean nothing."""
    unguarded: tuple[Path, ...] = ()
    """What is not there, must not be made, and cannot be kept from it: to be looked for afterwards."""

    def fixes(self, folder: Path) -> bool:
        """Whether who runs under it cannot put anything else in the place of the folder."""
        return folder in self.writable or any(folder.is_relative_to(path) for path in self.read_only)


def uses_git(arguments: Sequence[str]) -> bool:
    """Whether a command says that it works with the repository: else all of `.git` stays read-only."""
    return any(_USES_GIT.search(argument) for argument in arguments)


def makes_repository(arguments: Sequence[str]) -> bool:
    """Whether one of the commands, not just something in the text, is `git init` or `git clone`."""
    if not any(_MAKES_REPOSITORY.search(argument) for argument in (" ".join(arguments), *arguments)):
        return False
    return _is_making(arguments) or any(_holds_making(argument, 0) for argument in arguments)


def _holds_making(text: str, depth: int) -> bool:
    from agentcli.permissions.shelltree import Unparsable, descendants, parse, text_of

    root = parse(text)
    if isinstance(root, Unparsable) or depth > 2:
        return False
    for node in descendants(root):
        if node.type != "command":
            continue
        words = [
            text_of(child).strip("\"'")
            for child in node.children
            if child.is_named and child.type not in ("variable_assignment", "file_redirect", "heredoc_redirect")
        ]
        if _is_making(words):
            return True
        if (
            words
            and words[0].rpartition("/")[2] in _SHELLS
            and any(_holds_making(word, depth + 1) for word in words[1:])
        ):
            return True
    return False


def _is_making(words: Sequence[str]) -> bool:
    names = [word.rpartition("/")[2] for word in words]
    if names and names[0] in _WRAPPERS and "git" in names:
        words = words[names.index("git") :]
    elif names[:1] != ["git"]:
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in _GIT_VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word in ("init", "clone")
    return False


def protection(
    working_dirs: Sequence[Path], home: Path | None, arguments: Sequence[str], installation: Sequence[Path] = ()
) -> Protection:
    writable: list[Path] = []
    read_only: list[Path] = []
    missing: list[Path] = []
    missing_files: list[tuple[Path, str]] = []
    unguarded: list[Path] = []
    git = uses_git(arguments)
    for folder in working_dirs:
        for name in (*FOLDERS, *FILES):
            (read_only if os.path.lexists(folder / name) else missing).append(folder / name)
        read_only += _activate_scripts(folder)
        read_only += (path for path in installation if path.is_relative_to(folder))
        if home is not None and home.is_relative_to(folder):
            for name in HOME_FILES:
                if os.path.lexists(home / name):
                    read_only.append(home / name)
                elif "/" not in name:
                    missing.append(home / name)
        dot_git = folder / ".git"
        if not os.path.lexists(dot_git):
            if not (git and makes_repository(arguments)):
                missing.append(dot_git)
        elif not git or not dot_git.is_dir():
            read_only.append(dot_git)
    pointers: list[Path] = []
    for repository in repositories(working_dirs, home):
        pointers += _pointers(repository, working_dirs)
        if git:
            writable.append(repository)
            parts = _parts(repository)
            read_only += parts.read_only
            missing += parts.missing
            missing_files += parts.missing_files
            unguarded += parts.unguarded
    kept = [path for path in dict.fromkeys(read_only) if not path.is_symlink()]
    held = (*writable, *kept, *missing, *(path for path, _text in missing_files))
    writable += _ancestors(held, (*working_dirs, *writable))
    # Only the folder that it lies in: git renames between those above it, which cannot be done between mounts.
    writable += [path.parent for path in pointers if path.parent not in working_dirs]
    return Protection(
        tuple(sorted(set(writable))),
        tuple(dict.fromkeys((*kept, *pointers))),
        tuple(dict.fromkeys(missing)),
        tuple(dict.fromkeys(missing_files)),
        tuple(dict.fromkeys(unguarded)),
    )


def _ancestors(paths: Iterable[Path], roots: Sequence[Path]) -> list[Path]:
    """The folders between a writable one and these. A mount stays where it is, but the folder it lies in can be renamed
    and copied, and the copy is not mounted on: unless it is a mount too. Never a link, which would open what it leads
    to."""
    beginnings = tuple(str(root).rstrip("/") + "/" for root in roots)
    plain: dict[str, bool] = {}
    for path in paths:
        # As text: this is done for dozens of paths before every command, and paths as objects cost 3 ms.
        chain: list[str] = []
        parent = str(path).rpartition("/")[0]
        while parent not in plain and parent.startswith(beginnings):
            chain.append(parent)
            parent = parent.rpartition("/")[0]
        for folder in reversed(chain):
            plain[folder] = plain.get(folder.rpartition("/")[0], True) and _is_plain_folder(folder)
    return [path for folder, usable in plain.items() if usable and (path := Path(folder)) not in roots]


def _is_plain_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _activate_scripts(folder: Path) -> Iterable[Path]:
    for name in _ENVIRONMENTS:
        scripts = folder / name / "bin"
        if scripts.is_dir() and not (folder / name).is_symlink():
            yield from (scripts / script for script in _ACTIVATE if (scripts / script).is_file())


def repositories(working_dirs: Sequence[Path], home: Path | None) -> list[Path]:
    """The git folders that commands in these working directories use: their own, or that of the one around them."""
    found: list[Path] = []
    for folder in working_dirs:
        for ancestor in (folder, *folder.parents):
            dot_git = ancestor / ".git"
            if dot_git.is_symlink() or not dot_git.exists():
                continue
            if ancestor != folder and ancestor in (home, Path("/")):
                break
            found += [dot_git] if dot_git.is_dir() else _linked(dot_git)
            break
    return found


def outermost(repository: Path) -> Path:
    """The git folder that a submodule's lies in, else itself: what sessions in either have to agree on."""
    return next((parent for parent in reversed(repository.parents) if parent.name == ".git"), repository)


def _linked(dot_git: Path) -> list[Path]:
    """A worktree's two folders, if they point back at it: the pointer alone is a file that anybody could have made."""
    try:
        own = Path(os.path.realpath(dot_git.parent / read_start(dot_git).removeprefix("gitdir:").strip()))
        if not (own / "HEAD").is_file():
            return []
        if (own / "commondir").is_file():
            back = Path(os.path.realpath(read_start(own / "gitdir").strip()))
            common = Path(os.path.realpath(own / read_start(own / "commondir").strip()))
            if back != Path(os.path.realpath(dot_git)) or own.parent.parent != common:
                return []
            return [common]
        # A submodule: its folder lies in that of the repository around it.
        modules = next((parent for parent in own.parents if parent.name == "modules"), None)
        return [own] if modules is not None and modules.parent.name == ".git" else []
    except (OSError, ValueError):
        return []


def _parts(repository: Path) -> Protection:
    """What of a git folder, its submodules and worktrees makes git run something, or look for its configuration
    elsewhere."""
    read_only: list[Path] = []
    missing: list[Path] = []
    missing_files: list[tuple[Path, str]] = []
    unguarded: list[Path] = []
    folders = [repository]
    modules = _modules(repository / "modules")
    if len(modules) > _MOST_MODULES:
        read_only.append(repository / "modules")
    else:
        folders += modules
    for folder in folders:
        names = ("hooks", "config", "config.worktree", "commondir", "gitdir", "info/attributes")
        read_only += [folder / name for name in names if os.path.lexists(folder / name)]
        if not os.path.lexists(folder / "hooks"):
            missing.append(folder / "hooks")
        if not os.path.lexists(folder / "config") and os.path.lexists(folder / "HEAD"):
            missing_files.append((folder / "config", ""))
        if not os.path.lexists(folder / "config.worktree"):
            missing_files.append((folder / "config.worktree", ""))
        if not os.path.lexists(folder / "commondir"):
            if folder == repository and _has_its_files_elsewhere(folder):
                unguarded.append(folder / "commondir")
            else:
                missing_files.append((folder / "commondir", ".\n"))
    linked = list(islice((repository / "worktrees").glob("*/"), _MOST_MODULES + 1))
    if len(linked) > _MOST_MODULES:
        read_only.append(repository / "worktrees")
        linked = []
    for worktree in linked:
        for name in ("commondir", "gitdir", "config.worktree"):
            if os.path.lexists(worktree / name):
                read_only.append(worktree / name)
            elif name == "config.worktree":
                missing_files.append((worktree / name, ""))
    return Protection((), tuple(read_only), tuple(missing), tuple(missing_files), tuple(unguarded))


def _modules(root: Path) -> list[Path]:
    """The git folders of submodules, also of those in submodules; their names may have slashes. More than the most:
    there may be others."""
    found: list[Path] = []
    waiting = [(root, 0)]
    looked = 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            inner = [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        looked += len(inner)
        for path in inner:
            if os.path.lexists(path / "HEAD") or os.path.lexists(path / "config"):
                found.append(path)
                path /= "modules"
            waiting.append((path, depth + 1))
        if looked > _MOST_FOLDERS or depth > _DEEPEST:
            return found + [root] * (_MOST_MODULES + 1)
        if len(found) > _MOST_POINTERS:
            break
    return found


def _pointers(repository: Path, working_dirs: Sequence[Path]) -> list[Path]:
    """The `.git` files in working directories that say where a submodule or worktree has its git folder: git runs what
    is configured there, also for who only looks at the repository around it."""
    named: list[Path] = []
    for module in _modules(repository / "modules")[:_MOST_POINTERS]:
        with contextlib.suppress(OSError):
            if (match := _WORKTREE.search(read_start(module / "config", _MOST_CONFIG))) is not None:
                named.append(module / match[1] / ".git")
    for file in islice((repository / "worktrees").glob("*/gitdir"), _MOST_POINTERS):
        with contextlib.suppress(OSError):
            named.append(Path(read_start(file).strip()))
    found = []
    for path in named:
        real = Path(os.path.realpath(path))
        # A link on the way could lead to what is not to be opened.
        if real != Path(os.path.normpath(path)) or real.name != ".git" or not real.is_file():
            continue
        if any(real.is_relative_to(folder) for folder in working_dirs):
            found.append(real)
    return found


def _has_its_files_elsewhere(repository: Path) -> bool:
    """git forgets where, as soon as there is a `commondir`, even one that says `here`."""
    return _ELSEWHERE.search(read_start(repository / "config", _MOST_CONFIG)) is not None
