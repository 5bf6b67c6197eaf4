"""Where plugins are found: the project's folder, the user's folder, installed packages.

Those of the project are used only while it is trusted with exactly their content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.trust import content_digest, trust_root
from agentcli.core.frozen import frozen

ENTRY_POINTS = "agentcli.plugins"
"""The group of entry points that installed packages use."""
FOLDER = "plugins"
MOST_PLUGINS = 100
"""Maximum plugins per folder; more are ignored."""
Scope = Literal["project", "user", "package"]


@frozen
class PluginSource:
    """A plugin that may be loaded."""

    name: str
    scope: Scope
    label: str
    """Display name: `.agentcli/plugins/words.py`, `words-plugin 1.2`."""
    path: Path | None = None
    """Its file; None for an installed package."""


@frozen
class PluginPlaces:
    """The places of one session."""

    cwd: Path
    config_dir: Path | None = None
    home: Path | None = None
    uses_project: bool = True
    trusted_digests: Callable[[], Mapping[str, str] | None] = dict
    """Returns the currently trusted hash of each file by absolute path; None: any content counts (--trust).
    Blocking."""
    trust_file: Path | None = None
    """File that changes when the user trusts a folder."""
    packages: bool = True

    @property
    def project_folder(self) -> Path:
        return trust_root(self.cwd) / PROJECT_FOLDER / FOLDER

    def folders(self) -> tuple[tuple[Path, Scope], ...]:
        found: list[tuple[Path, Scope]] = [(self.project_folder, "project")] if self.uses_project else []
        if self.config_dir is not None:
            found.append((self.config_dir / FOLDER, "user"))
        return tuple(found)

    def files(self) -> list[PluginSource]:
        """All plugin files in a fixed order, those of an untrusted project too. A file whose name starts with `_` or
        `test_` is not a plugin."""
        found: list[PluginSource] = []
        for folder, scope in self.folders():
            for name in _names(folder)[:MOST_PLUGINS]:
                path = folder / name
                found.append(PluginSource(path.stem, scope, self._label(path, scope), path))
        return found

    def is_trusted(self, source: PluginSource, data: bytes, digests: Mapping[str, str] | None) -> bool:
        if source.scope != "project" or digests is None or source.path is None:
            return True
        return digests.get(os.path.normpath(source.path)) == content_digest(data)

    def _label(self, path: Path, scope: Scope) -> str:
        if scope == "project":
            return f"{PROJECT_FOLDER}/{FOLDER}/{path.name}"
        if self.home is not None and path.is_relative_to(self.home):
            return f"~/{path.relative_to(self.home)}"
        return str(path)


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(".py") and not name.startswith(("_", ".", "test_")))
