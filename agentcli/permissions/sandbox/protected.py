"""The paths inside writable folders that other programs run or obey (S5, S12): which are there, which could be planted.

Knows names and git's layout; mounts nothing and changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from agentcli.core.frozen import frozen

FOLDERS: tuple[str, ...] = (".agentcli", ".claude", ".vscode", ".idea", ".husky")
FILES: tuple[str, ...] = (".mcp.json", ".envrc")
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
_MOST_MODULES = 100
_MODULE_CONFIGS = ("*/config", "*/*/config", "*/modules/*/config")

_USES_GIT = re.compile(r"(?<![\w./-])(?:[\w./-]*/)?(?:git|gh|jj|tig|lazygit|hub)(?![\w./-])")
_MAKES_REPOSITORY = re.compile(r"(?<![\w.-])git\b[^;&|\n]*\s(?:init|clone)\b")


@frozen
class Protection:
    writable: tuple[Path, ...] = ()
    """Folders that have to be mounts of their own and writable: a mount cannot be moved away, its contents could."""
    read_only: tuple[Path, ...] = ()
    """What is there."""
    missing: tuple[Path, ...] = ()
    """What is not there and must not be made."""
    unguarded: tuple[Path, ...] = ()
    """What is not there, must not be made, and cannot be kept from it: to be looked for afterwards."""


def uses_git(arguments: Sequence[str]) -> bool:
    """Whether a command says that it works with the repository: else all of `.git` stays read-only."""
    return any(_USES_GIT.search(argument) for argument in arguments)


def protection(working_dirs: Sequence[Path], home: Path | None, arguments: Sequence[str]) -> Protection:
    writable: list[Path] = []
    read_only: list[Path] = []
    missing: list[Path] = []
    unguarded: list[Path] = []
    git = uses_git(arguments)
    for folder in working_dirs:
        for name in (*FOLDERS, *FILES):
            (read_only if os.path.lexists(folder / name) else missing).append(folder / name)
        read_only += _activate_scripts(folder)
        if home is not None and home.is_relative_to(folder):
            for name in HOME_FILES:
                if os.path.lexists(home / name):
                    read_only.append(home / name)
                elif "/" not in name:
                    missing.append(home / name)
        dot_git = folder / ".git"
        if not os.path.lexists(dot_git):
            if not (git and any(_MAKES_REPOSITORY.search(argument) for argument in arguments)):
                missing.append(dot_git)
        elif not git or not dot_git.is_dir():
            read_only.append(dot_git)
    if git:
        for repository in repositories(working_dirs, home):
            writable.append(repository)
            read_only += _risky(repository)
            if not (repository / "hooks").exists():
                missing.append(repository / "hooks")
            if not os.path.lexists(repository / "commondir"):
                unguarded.append(repository / "commondir")
    return Protection(
        tuple(dict.fromkeys(writable)),
        tuple(path for path in dict.fromkeys(read_only) if not path.is_symlink()),
        tuple(dict.fromkeys(missing)),
        tuple(dict.fromkeys(unguarded)),
    )


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


def _linked(dot_git: Path) -> list[Path]:
    """A worktree's two folders, if they point back at it: the pointer alone is a file that anybody could have made."""
    try:
        own = Path(os.path.realpath(dot_git.parent / dot_git.read_text().removeprefix("gitdir:").strip()))
        if not (own / "HEAD").is_file():
            return []
        if (own / "commondir").is_file():
            back = Path(os.path.realpath((own / "gitdir").read_text().strip()))
            common = Path(os.path.realpath(own / (own / "commondir").read_text().strip()))
            if back != Path(os.path.realpath(dot_git)) or own.parent.parent != common:
                return []
            return [common]
        # A submodule: its folder lies in that of the repository around it.
        modules = next((parent for parent in own.parents if parent.name == "modules"), None)
        return [own] if modules is not None and modules.parent.name == ".git" else []
    except (OSError, ValueError):
        return []


def _risky(repository: Path) -> list[Path]:
    """What of a git folder makes git run something, or look for its configuration elsewhere."""
    names = ("hooks", "config", "config.worktree", "commondir", "gitdir", "info/attributes")
    found = [repository / name for name in names if os.path.lexists(repository / name)]
    modules = [config for pattern in _MODULE_CONFIGS for config in (repository / "modules").glob(pattern)]
    linked = (repository / "worktrees").glob("*/")
    for config in modules[:_MOST_MODULES]:
        found += [path for path in (config, config.parent / "hooks") if path.exists()]
    for worktree in islice(linked, _MOST_MODULES):
        found += [
            worktree / name for name in ("commondir", "gitdir", "config.worktree") if os.path.lexists(worktree / name)
        ]
    return found
