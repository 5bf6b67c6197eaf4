"""Paths of the user's files. Computes paths only; the writers create the folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.core.files.access import is_below, real_path
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import repository_root

MANAGED_SETTINGS = Path("/etc/agentcli/settings.json")
PROJECT_FOLDER = ".agentcli"
PROJECT_FILES = frozenset({"settings.json", "settings.local.json", ".gitignore"})
"""Files that agentcli itself writes into `PROJECT_FOLDER`."""


STATE_PARTS = ("sessions", "snapshots", "memory", "quarantine", "history", "drafts", "crashes")
STATE_FILES = (
    *("auto-mode-offered", "credentials.json", "credentials.lock", "trust.json", "trust.lock", "plugins.log"),
    *("mcp-tokens.json", "mcp-choices.json", "mcp-choices.lock"),
)
"""Known files in the state folder. Together with `STATE_PARTS` they are protected even before they exist."""


@frozen
class Paths:
    """The user's folders; None if there is no home and no variable that names the folder."""

    config_dir: Path | None
    state_dir: Path | None
    cache_dir: Path | None
    managed_settings: Path = MANAGED_SETTINGS

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], home: Path | None = None) -> Paths:
        """Find the folders. `home` None: the value of HOME. Relative values are ignored, as XDG requires."""
        home = home or _absolute(environ.get("HOME"))

        def folder(own: str, common: str, below_home: str) -> Path | None:
            if (named := _absolute(environ.get(own))) is not None:
                return named
            base = _absolute(environ.get(common)) or (home / below_home if home else None)
            return base / "agentcli" if base else None

        return cls(
            config_dir=folder("AGENTCLI_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
            state_dir=folder("AGENTCLI_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
            cache_dir=folder("AGENTCLI_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
        )

    @property
    def user_settings(self) -> Path | None:
        return self.config_dir / "settings.json" if self.config_dir else None

    @property
    def index_dir(self) -> Path | None:
        """The folder of the search index, which has the texts of all sessions."""
        return self.cache_dir / "sessions" if self.cache_dir else None

    @property
    def quarantine_dir(self) -> Path | None:
        return self.state_dir / "quarantine" if self.state_dir else None


def project_folder(cwd: Path) -> Path:
    """The active `.agentcli` folder: the nearest one from `cwd` up to the repository's root, else the one in `cwd`.

    Never above the root of a repository, nor above `cwd` outside a repository: a folder that another user
    put into a shared parent (/tmp, /home) must not configure us.
    """
    root = repository_root(cwd) or cwd
    candidates = (folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(root))
    return next((folder for folder in candidates if (folder / PROJECT_FOLDER).is_dir()), cwd) / PROJECT_FOLDER


def find_own_parts(folder: Path, working_dirs: Iterable[Path]) -> tuple[Path, ...]:
    """Paths to protect in one of agentcli's own folders: the whole folder, or everything in it except the worktree in
    which the agent works."""
    real = Path(real_path(folder))
    inside = [each.relative_to(real).parts[0] for each in working_dirs if each != real and each.is_relative_to(real)]
    if not inside:
        return (folder,)
    try:
        present = [entry.name for entry in os.scandir(real)]
    except OSError:
        present = []
    names = dict.fromkeys((*STATE_PARTS, *STATE_FILES, *sorted(present)))
    return tuple(real / name for name in names if name not in inside)


def find_linked_parts(config_dir: Path | None, home: Path | None, working_dirs: Iterable[Path]) -> list[Path]:
    """Files and folders inside working directories that the user's own settings and plugins are links to."""
    paths = [f"{home}/.claude/settings.json"] if home else []
    if config_dir is not None:
        paths += [f"{config_dir}/settings.json", f"{config_dir}/plugins"]
        with contextlib.suppress(OSError):
            paths += [entry.path for entry in os.scandir(f"{config_dir}/plugins")]
    own, folders = [real_path(config_dir)] if config_dir else [], [*map(str, working_dirs)]
    found = dict.fromkeys(real for path in paths if (real := real_path(path)) != path and os.path.exists(real))  # noqa: PTH110
    return [Path(real) for real in found if is_below(real, folders) and real not in folders and not is_below(real, own)]


def _absolute(text: str | None) -> Path | None:
    return Path(text) if text and text.startswith("/") else None
