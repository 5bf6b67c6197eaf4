"""Paths inside writable folders that other programs run or obey, both existing and missing.

Knows names and git's layout; does not mount or modify anything.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from agentcli.core.files.access import is_below, read_start
from agentcli.core.frozen import frozen
from agentcli.core.git.run import git_program
from agentcli.core.git.settings import list_settings
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.git_config import hooks_folders, possible_dot_gits, read_regular, resolve_dot_git, subcommand_index
from agentcli.shell.protected_names import FIXED_FILES, FIXED_FOLDERS, OBEYED_AT_THE_TOP

FOLDERS = FIXED_FOLDERS
FILES = FIXED_FILES
HOME_FILES: tuple[str, ...] = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".gitconfig", ".local/bin"),
    *(".config/fish", ".config/git", ".config/autostart", ".config/systemd"),
)
"""Protected only if the home folder, or a folder above it, is a working directory."""
REBASE_TODO = "rebase-merge/git-rebase-todo"
_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_ACTIVATE = ("activate", "activate.fish", "activate.csh", "activate.ps1", "Activate.ps1", "activate_this.py")
_MAX_MODULES = 16
"""Maximum submodules, and maximum linked worktrees. Each takes five mounts of 0.1 to 0.3 ms; beyond the limit they are
read-only as a whole."""
_MAX_POINTERS = 16
_MAX_FOLDERS = 300
_MAX_DEPTH = 6

_GIT_PROGRAMS = ("git", "gh", "jj", "tig", "lazygit", "hub")
_USES_GIT = lazy_pattern(rf"(?<![\w./-])(?:[\w./-]*/)?(?:{'|'.join(_GIT_PROGRAMS)})(?![\w./-])")
_WRAPPERS = frozenset({"command", "env", "exec", "nice", "nohup", "stdbuf", "time", "timeout", "xargs"})
_SHELLS = frozenset({"bash", "dash", "eval", "sh", "zsh"})
_MAKING = frozenset({"init", "clone", "worktree", "submodule"})
_CONFIGURING = frozenset(
    {"branch", "checkout", "config", "fetch", "flow", "lfs", "maintenance", "pull", "push", "remote", "sparse-checkout"}
    | {"switch", *_MAKING}
)
"""Git commands that write to its configuration."""
_CONFIGURES = lazy_pattern(rf"(?<![\w.-])git\b[^;&|\n]*\s(?:{'|'.join(sorted(_CONFIGURING))})\b")


@frozen
class Protection:
    writable: tuple[Path, ...] = ()
    """Folders that must be separate, writable mounts: a mount cannot be moved away, but a plain folder could."""
    read_only: tuple[Path, ...] = ()
    missing: tuple[Path, ...] = ()
    """Names that do not exist and must not be created: checked while the command runs and afterwards."""
    contents: tuple[Path, ...] = ()
    """Files that git or the command may replace or remove, whose content is checked afterwards."""
    repositories: tuple[Path, ...] = ()
    """Git folders that the command may write."""
    makes_repository: bool = False

    def open_for(self, names: Sequence[Path]) -> Protection:
        """A copy without these names, which the user approved to write; git's own folder stays protected."""
        wanted = [name for name in names if ".git" not in name.parts]
        if not wanted:
            return self

        def stays(path: Path) -> bool:
            return not any(name.is_relative_to(path) for name in wanted)

        return replace(
            self,
            read_only=tuple(filter(stays, self.read_only)),
            missing=tuple(filter(stays, self.missing)),
            contents=tuple(filter(stays, self.contents)),
        )

    def with_obeyed_names(self, working_dirs: Sequence[Path], uncovered: Sequence[Path]) -> Protection:
        """A copy that also protects names at the top of the working directories that hooks, editors, builds and package
        managers obey, and existing paths that undo does not cover."""
        names = [folder / name for folder in working_dirs for name in OBEYED_AT_THE_TOP]
        names += [path for path in uncovered if any(folder in path.parents for folder in working_dirs)]
        there = [path for path in names if os.path.lexists(path) and not path.is_symlink()]
        missing = [path for path in names if not os.path.lexists(path)]
        return replace(
            self,
            writable=tuple(sorted({*self.writable, *folders_between(there, working_dirs)})),
            read_only=tuple(dict.fromkeys((*self.read_only, *there))),
            missing=tuple(dict.fromkeys((*self.missing, *missing))),
        )

    def fixes(self, folder: Path) -> bool:
        """Whether a command under this protection cannot replace the folder."""
        return folder in self.writable or any(folder.is_relative_to(path) for path in self.read_only)


def uses_git(arguments: Sequence[str]) -> bool:
    """Whether a command openly uses git; otherwise all of `.git` stays read-only."""
    # Most commands contain none of the names; the pattern is slower than this plain search.
    text = " ".join(arguments)
    return any(program in text for program in _GIT_PROGRAMS) and any(map(_USES_GIT.search, arguments))


def git_commands(arguments: Sequence[str]) -> frozenset[str]:
    """The git commands that openly run and write to its configuration: `checkout`, `clone` …"""
    if not any(_CONFIGURES.search(argument) for argument in (" ".join(arguments), *arguments)):
        return frozenset()
    found = {_git_command(arguments)}
    for argument in arguments:
        found |= _commands_in(argument, 0)
    return frozenset(found & _CONFIGURING)


def _commands_in(text: str, depth: int) -> set[str]:
    from agentcli.shell.parser.syntax_tree import Unparsable, descendants, parse, text_of

    root = parse(text)
    found: set[str] = set()
    if isinstance(root, Unparsable) or depth > 2:
        return found
    for node in descendants(root):
        if node.type != "command":
            continue
        words = [
            text_of(child).strip("\"'")
            for child in node.children
            if child.is_named and child.type not in ("variable_assignment", "file_redirect", "heredoc_redirect")
        ]
        found.add(_git_command(words))
        if words and words[0].rpartition("/")[2] in _SHELLS:
            for word in words[1:]:
                found |= _commands_in(word, depth + 1)
    return found


def _git_command(words: Sequence[str]) -> str:
    """The git command that these words run; empty if they run none."""
    names = [word.rpartition("/")[2] for word in words]
    if names and names[0] in _WRAPPERS and "git" in names:
        words = words[names.index("git") :]
    elif names[:1] != ["git"]:
        return ""
    return next(iter(words[subcommand_index(words) :]), "")


def protection(
    working_dirs: Sequence[Path], home: Path | None, arguments: Sequence[str], installation: Sequence[Path] = ()
) -> Protection:
    writable: list[Path] = []
    read_only: list[Path] = []
    missing: list[Path] = []
    contents: list[Path] = []
    git = uses_git(arguments)
    verbs = git_commands(arguments) if git else frozenset()
    making = not verbs.isdisjoint(_MAKING)
    for folder in working_dirs:
        for text, path in _list_named(folder, (*FOLDERS, *FILES)):
            (read_only if os.path.lexists(text) else missing).append(path)
        contents += _activate_scripts(folder)
        read_only += (path for path in installation if is_below(str(path), (str(folder),)))
        if home is not None and is_below(str(home), (str(folder),)):
            for text, path in _list_named(home, HOME_FILES):
                (read_only if os.path.lexists(text) else missing).append(path)
        [(text, dot_git)] = _list_named(folder, (".git",))
        if not os.path.lexists(text):
            if not making:
                missing.append(dot_git)
        elif not git or not dot_git.is_dir():
            read_only.append(dot_git)
    for hooks in map(Path, hooks_folders(working_dirs)):
        (read_only if os.path.lexists(hooks) else missing).append(hooks)
    pointers: list[Path] = []
    found = repositories(working_dirs, home)
    for repository in found:
        pointers += _pointers(repository, working_dirs)
        if git:
            writable.append(repository)
            parts = _parts(repository, verbs)
            read_only += parts.read_only
            missing += parts.missing
            contents += parts.contents
    if making:
        contents += pointers
        pointers = []
    kept = [path for path in dict.fromkeys(read_only) if not path.is_symlink()]
    held = (*writable, *kept, *(path for path in missing if not making or "worktrees" not in path.parts))
    writable += folders_between(held, (*working_dirs, *writable))
    # Only the folder that contains it: git renames files between the folders above, which fails across mounts.
    writable += [path.parent for path in pointers if path.parent not in working_dirs]
    return Protection(
        tuple(sorted(set(writable))),
        tuple(dict.fromkeys((*kept, *pointers))),
        tuple(dict.fromkeys(missing)),
        tuple(dict.fromkeys(contents)),
        tuple(found) if git else (),
        making,
    )


@functools.lru_cache(maxsize=16)
def _list_named(folder: Path, names: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    """Paths in a folder, as text and as `Path`. Cached: building a `Path` takes longer than checking it."""
    return tuple((str(path), path) for path in (folder / name for name in names))


def folders_between(paths: Iterable[Path], roots: Sequence[Path]) -> list[Path]:
    """The folders between a writable folder and these paths.

    A mount stays in place, but the folder around it can be renamed and copied, and the copy has no mount, unless that
    folder is a mount too. Links are excluded, because mounting one would open its target.
    """
    beginnings = tuple(str(root).rstrip("/") + "/" for root in roots)
    plain: dict[str, bool] = {}
    for path in paths:
        # As strings: this runs for dozens of paths before every command, and `Path` objects cost 3 ms.
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
    for text, scripts in _list_named(folder, tuple(f"{name}/bin" for name in _ENVIRONMENTS)):
        if os.access(text, os.F_OK) and scripts.is_dir() and not scripts.parent.is_symlink():
            yield from (scripts / script for script in _ACTIVATE if (scripts / script).is_file())


def repositories(working_dirs: Sequence[Path], home: Path | None) -> list[Path]:
    """The git folders that commands in these working directories use: their own, or that of a parent folder."""
    found: list[Path] = []
    for folder in working_dirs:
        for text, dot_git in possible_dot_gits(folder):
            # Most folders have none.
            if not os.path.lexists(text) or dot_git.is_symlink():
                continue
            ancestor = dot_git.parent
            if ancestor != folder and ancestor in (home, Path("/")):
                break
            found += [dot_git] if dot_git.is_dir() else _list_linked(dot_git)
            break
    return found


def outermost(repository: Path) -> Path:
    """The git folder that contains a submodule's one, else the folder itself."""
    return next((parent for parent in reversed(repository.parents) if parent.name == ".git"), repository)


def _list_linked(dot_git: Path) -> list[Path]:
    """The git folder that a `.git` file names, if it points back: anybody could create such a file."""
    target = resolve_dot_git(dot_git)
    if target is None:
        return []
    own = Path(os.path.realpath(target))
    if not (own / "HEAD").is_file():
        return []
    here = os.path.realpath(dot_git)
    pointer, back = read_regular(own / "commondir"), read_regular(own / "gitdir")
    if pointer is not None:
        common = Path(os.path.realpath(own / os.fsdecode(pointer.rstrip(b"\r\n").replace(b"\0", b""))))
        points_here = back is not None and os.path.realpath(os.fsdecode(back.rstrip(b"\r\n"))) == here
        return [common] if points_here and own.parent == common / "worktrees" else []
    # A submodule: its git folder is inside that of the outer repository.
    modules = next((parent for parent in own.parents if parent.name == "modules"), None)
    if modules is None or modules.parent.name != ".git":
        return []
    named = (own / value / ".git" for value in _worktrees_named(own))
    return [own] if any(os.path.realpath(path) == here for path in named) else []


def _worktrees_named(git_dir: Path) -> list[str]:
    """`core.worktree` of a git folder, as git reads it."""
    data = read_regular(git_dir / "config")
    if data is None or b"worktree" not in data.lower():
        return []
    settings = list_settings(data, git_program(())) or ()
    return [value for key, value in settings if key == "core.worktree" and "\0" not in value][-1:]


def _parts(repository: Path, verbs: frozenset[str]) -> Protection:
    """Parts of a git folder, its submodules and worktrees that make git run a program or read configuration from
    elsewhere."""
    read_only: list[Path] = []
    missing: list[Path] = []
    contents: list[Path] = []
    folders = [repository]
    modules = _modules(repository / "modules")
    if len(modules) > _MAX_MODULES:
        read_only.append(repository / "modules")
    else:
        folders += modules
    configuration = contents if verbs else read_only
    for folder in folders:
        for name in ("hooks", "config", "config.worktree", "commondir", "gitdir", "info/attributes"):
            if os.path.lexists(folder / name):
                (configuration if name.startswith("config") else read_only).append(folder / name)
            elif name in ("hooks", "config", "config.worktree", "commondir"):
                missing.append(folder / name)
        _add_todo(folder, missing, contents)
    linked = list(islice((repository / "worktrees").glob("*/"), _MAX_MODULES + 1))
    if len(linked) > _MAX_MODULES and verbs.isdisjoint(_MAKING):
        read_only.append(repository / "worktrees")
        linked = []
    for worktree in linked:
        _add_todo(worktree, missing, contents)
        for name in ("commondir", "gitdir", "config.worktree"):
            if os.path.lexists(worktree / name):
                (read_only if verbs.isdisjoint(_MAKING) else contents).append(worktree / name)
            elif name == "config.worktree":
                missing.append(worktree / name)
    return Protection((), tuple(read_only), tuple(missing), tuple(contents))


def _add_todo(git_dir: Path, missing: list[Path], contents: list[Path]) -> None:
    """Add the list of steps that `git rebase --continue` runs."""
    todo = git_dir / REBASE_TODO
    if os.path.lexists(todo):
        contents.append(todo)
    elif not os.path.lexists(todo.parent):
        missing.append(todo)


def _modules(root: Path) -> list[Path]:
    """The git folders of submodules, including nested ones; names may contain slashes. At the limit there may be
    more."""
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
        if looked > _MAX_FOLDERS or depth > _MAX_DEPTH:
            return found + [root] * (_MAX_MODULES + 1)
        if len(found) > _MAX_POINTERS:
            break
    return found


def _pointers(repository: Path, working_dirs: Sequence[Path]) -> list[Path]:
    """The `.git` files in working directories that name the git folder of a submodule or worktree.

    Git runs what is configured there, even if the user only inspects the outer repository.
    """
    named: list[Path] = []
    for module in _modules(repository / "modules")[:_MAX_POINTERS]:
        named += [module / value / ".git" for value in _worktrees_named(module)]
    for file in islice((repository / "worktrees").glob("*/gitdir"), _MAX_POINTERS):
        with contextlib.suppress(OSError):
            named.append(Path(read_start(file).strip()))
    found = []
    for path in named:
        real = Path(os.path.realpath(path))
        # A link in the path could lead to a folder that must stay protected.
        if real != Path(os.path.normpath(path)) or real.name != ".git" or not real.is_file():
            continue
        if any(real.is_relative_to(folder) for folder in working_dirs):
            found.append(real)
    return found
