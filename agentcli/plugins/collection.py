"""The plugins of a session: where they are found, loaded once, and again when a file changes.

Those of a project are used only while it is trusted with exactly their content. The last version that loaded stays in
use. `refresh` blocks and runs plugin code: call it in a thread. `is_stale` costs a stat per file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.trust import content_digest, trust_root
from agentcli.core.files.access import Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.plugins.loader import (
    LoadedPlugin,
    Loading,
    PluginProblem,
    PluginSource,
    Scope,
    entry_points,
    load_entry_point,
    load_file,
)

FOLDER = "plugins"
MAX_PLUGINS = 100
"""Maximum plugins per folder; more are ignored."""


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
            for name in _names(folder)[:MAX_PLUGINS]:
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


MAX_FILE_BYTES = 1024 * 1024
UNTRUSTED = "not loaded: the project is not trusted with this content. Review it with `agentcli trust`."
_Stamp = tuple[int, int, int]


@frozen
class _Seen:
    stamp: _Stamp
    trusted: bool
    loaded: LoadedPlugin


class PluginCollection:
    def __init__(self, places: PluginPlaces, loading: Loading) -> None:
        self.places = places
        self.loading = loading
        self._lock = threading.Lock()
        self._files: dict[Path, _Seen] = {}
        self._packages: tuple[LoadedPlugin, ...] | None = None
        self._reported: set[str] = set()
        self._trust_stamp: _Stamp | None = None
        self.plugins: tuple[LoadedPlugin, ...] = ()
        """In a fixed order: the project's, the user's, those of packages; by name."""
        self.loaded = False

    def refresh(self) -> tuple[list[LoadedPlugin], list[PluginProblem]]:
        """Load what is new or changed. Returns the plugins whose version in use changed, and the new problems."""
        with self._lock:
            before = {each.source: each for each in self.plugins}
            sources = self.places.files()
            self._trust_stamp = self._trust_now()
            digests = self.places.trusted_digests() if any(each.scope == "project" for each in sources) else {}
            files: dict[Path, _Seen] = {}
            for source in sources:
                if source.path is not None and (seen := self._one(source, digests)) is not None:
                    files[source.path] = seen
            self._files = files
            if self._packages is None:
                self._packages = self._load_packages() if self.places.packages else ()
            self.plugins = (*(seen.loaded for seen in files.values()), *self._packages)
            self.loaded = True
            changed = [
                each
                for each in self.plugins
                if each.plugin is not (before[each.source].plugin if each.source in before else None)
            ]
            now = {each.source for each in self.plugins}
            changed += [each for source, each in before.items() if source not in now and each.plugin is not None]
            problems = [each.problem for each in self.plugins if each.problem is not None]
            new = [problem for problem in problems if str(problem) not in self._reported]
            self._reported = {str(problem) for problem in problems}
            return changed, new

    def in_use(self) -> list[dict[str, str]]:
        """Name and path of each plugin that has loaded; the path of a package is ""."""
        sources = [each.source for each in self.plugins if each.plugin is not None]
        return [{"name": source.name, "path": str(source.path or "")} for source in sources]

    def is_stale(self) -> bool:
        """Whether a file was added, changed or removed since the last `refresh`, or a refused one may now be
        trusted."""
        sources = [source.path for source in self.places.files() if source.path is not None]
        if not self.loaded or sources != list(self._files):
            return True
        if any(_stamp(path) != seen.stamp for path, seen in self._files.items()):
            return True
        refused = any(not seen.trusted for seen in self._files.values())
        return refused and self._trust_stamp != self._trust_now()

    def _trust_now(self) -> _Stamp | None:
        return _stamp(self.places.trust_file) if self.places.trust_file is not None else None

    def watched_paths(self) -> list[str]:
        """Folders and files in which a change may make this stale."""
        trust = [] if self.places.trust_file is None else [self.places.trust_file]
        return [str(path) for path in (*(folder for folder, _scope in self.places.folders()), *trust)]

    def _one(self, source: PluginSource, digests: Any) -> _Seen | None:
        assert source.path is not None
        stamp, known = _stamp(source.path), self._files.get(source.path)
        if stamp is None:
            return None
        if known is not None and known.stamp == stamp and known.trusted:
            return known
        data = read_bounded(source.path, MAX_FILE_BYTES)
        last = known.loaded.plugin if known is not None else None
        if isinstance(data, Unread):
            problem = PluginProblem(source.label, 0, f"not read: {data.reason.value}")
            return _Seen(stamp, True, LoadedPlugin(source, last, problem))
        if not self.places.is_trusted(source, data, digests):
            text = UNTRUSTED if last is None else f"{UNTRUSTED} The version from before stays in use."
            return _Seen(stamp, False, LoadedPlugin(source, last, PluginProblem(source.label, 0, text)))
        loaded = load_file(source, data, self.loading)
        return _Seen(stamp, True, replace(loaded, plugin=loaded.plugin or last))

    def _load_packages(self) -> tuple[LoadedPlugin, ...]:
        return tuple(load_entry_point(source, entry, self.loading) for source, entry in entry_points())


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
