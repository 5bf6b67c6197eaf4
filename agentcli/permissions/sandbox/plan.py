"""What a sandbox allows (folders, secrets, network), independent of the back end.

`SandboxRules` is what the settings and flags ask for; `Masks` is what of it exists on this machine right now. Reads
the file system, never changes it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.permissions.paths import Resolved, is_below
from agentcli.permissions.sandbox.filtered import FILTERS, Filter
from agentcli.permissions.sandbox.limits import ResourceLimits
from agentcli.permissions.sandbox.network.upstream import Upstream
from agentcli.permissions.sandbox.secrets import EMPTY, FILTERED_ONLY, SYSTEM, UNREADABLE

_EMPTIED = (*EMPTY, *FILTERED_ONLY)
PathFinder = Callable[[], Iterable[Path]]


def _nothing() -> Iterable[Path]:
    return ()


@frozen(kw_only=True)
class SandboxRules:
    """The settings of a sandbox. All paths are absolute."""

    working_dirs: tuple[Path, ...]
    home: Path | None = None
    network: bool = True
    strict: bool = False
    """Also disable user namespaces inside: browsers and containers fail, but the kernel is less exposed."""
    allow_write: tuple[Path, ...] = ()
    allow_read: tuple[Path, ...] = ()
    deny_read: tuple[Path, ...] = ()
    own_folders: tuple[Path, ...] = ()
    """agentcli's own configuration and state: keys, trust, other conversations."""
    readable: tuple[Path, ...] = ()
    """Readable exceptions in `own_folders`: the results of this session."""
    denied_files: PathFinder = _nothing
    """Returns the files hidden by deny rules; called at every launch, so it must be fast."""
    excluded_commands: tuple[str, ...] = ()
    """Prefixes of commands that run outside the sandbox."""
    cache_dir: Path | None = None
    """Folder for caches of package tools, since the user's own are read-only; None: none."""
    installation: tuple[Path, ...] = ()
    """What runs agentcli (`core.installation`), resolved: read-only, also inside a working directory."""
    limits: ResourceLimits = ResourceLimits()
    can_ask: bool = True
    """Whether the session is interactive, so that the user can approve."""
    upstream: Upstream | None = None
    """The proxy that this machine itself has to use, for connections to allowed hosts."""

    def for_trial(self, folders: TrialFolders, limits: ResourceLimits | None = None) -> SandboxRules:
        """The same rules around scratch folders."""
        return replace(
            self,
            working_dirs=(folders.project,),
            home=folders.home,
            allow_write=(),
            excluded_commands=(),
            deny_read=(*self.deny_read, folders.secret),
            readable=(),
            denied_files=_nothing,
            cache_dir=folders.state / "caches",
            installation=(*self.installation, folders.installation),
            limits=limits or self.limits,
            upstream=None,
        )

    @property
    def level(self) -> str:
        return f"network {'on' if self.network else 'off'}{', strict' if self.strict else ''}"


@frozen(kw_only=True)
class TrialFolders:
    """Scratch folders to try a sandbox out with. All exist, are absolute and without links."""

    project: Path
    installation: Path
    """In the project, as where agentcli is installed in a project's `.venv`."""
    home: Path
    secret: Path
    """Must not be readable."""
    state: Path
    """For caches and quarantine, which commands must not reach."""

    @property
    def quarantine(self) -> Path:
        return self.state / "quarantine"


@frozen
class Masks:
    """Existing paths, resolved; none of them holds or is a working directory."""

    refused: tuple[Path, ...]
    emptied: tuple[Path, ...]
    reopened: tuple[Path, ...]
    """Paths inside masked ones that stay readable."""
    filters: Mapping[Path, Filter] = field(default_factory=dict)
    """Filters for those of `emptied` that lose only their secrets."""
    settings: frozenset[Path] = frozenset()
    """Those of `emptied` that are mainly settings."""

    @property
    def all(self) -> tuple[Path, ...]:
        return (*self.refused, *self.emptied)


def find_masks(rules: SandboxRules, resolved: Resolved | None = None) -> Masks:
    """`resolved`: what the caller has resolved for the same command."""
    return _masks(rules, _look(rules, Resolved() if resolved is None else resolved))


Existing = tuple[tuple[str, str], ...]
"""Paths that exist, each with the path it resolves to."""


@frozen
class _Found:
    """What there is of the paths that a sandbox masks or opens."""

    refused: Existing
    emptied: Existing
    denied: Existing
    readable: Existing
    opened: Existing


def _look(rules: SandboxRules, resolved: Resolved) -> _Found:
    def existing(paths: Iterable[Path | str]) -> Existing:
        # Most paths do not exist, and checking that is ten times faster than resolving links.
        there = (str(path) for path in paths if os.path.exists(path))  # noqa: PTH110 - some dozens before a command
        return tuple((text, resolved[text]) for text in there)

    refused = existing((*rules.own_folders, *rules.deny_read, *(SYSTEM if os.geteuid() == 0 else ())))
    emptied: Existing = ()
    if rules.home is not None:
        refused += tuple((text, resolved[text]) for text in _present(rules.home, UNREADABLE))
        emptied = tuple((text, resolved[text]) for text in _present(rules.home, _EMPTIED))
    return _Found(
        refused, emptied, existing(rules.denied_files()), existing(rules.readable), existing(rules.allow_read)
    )


@functools.lru_cache(maxsize=8)
def _masks(rules: SandboxRules, found: _Found) -> Masks:
    """Kept, because the same is found before almost every command of a session."""
    refused = _maskable(found.refused, rules, set(map(str, rules.deny_read)), found.opened)
    refused = _outermost((*refused, *(Path(real) for _path, real in found.denied)))
    readable = [Path(real) for _path, real in (*found.readable, *found.opened)]
    reopened = [path for path in readable if is_below(str(path), map(str, refused))]
    names = {Path(real): str(Path(path).relative_to(rules.home)) for path, real in found.emptied if rules.home}
    return Masks(
        refused,
        _outermost(_maskable(found.emptied, rules, set(), found.opened)),
        tuple(dict.fromkeys(reopened)),
        {path: FILTERS[name] for path, name in names.items() if name in FILTERS},
        frozenset(path for path, name in names.items() if name in FILTERED_ONLY),
    )


def _present(home: Path, names: tuple[str, ...]) -> list[str]:
    """The paths below the home folder that exist and are not links to nothing. Most are missing: `Path` objects would
    cost a millisecond, exceptions half of one. What lies in a missing folder is not looked for, which is a third of the
    names where there is no `.config`. In the order of the names: of two for one file, the last decides."""
    found: list[tuple[int, str]] = []
    for folder, paths in _by_folder(str(home), names).items():
        if os.access(folder, os.F_OK):
            found += [each for each in paths if os.access(each[1], os.F_OK)]
    return [path for _place, path in sorted(found)]


@functools.lru_cache(maxsize=8)
def _by_folder(home: str, names: tuple[str, ...]) -> dict[str, list[tuple[int, str]]]:
    """The paths of the names, each after its place among them, by the folder that they all lie in: the home folder, or
    the first folder below it."""
    base = home.rstrip("/")
    found: dict[str, list[tuple[int, str]]] = {}
    for place, name in enumerate(names):
        folder, slash, _rest = name.partition("/")
        found.setdefault(f"{base}/{folder}" if slash else home, []).append((place, f"{base}/{name}"))
    return found


def _maskable(paths: Existing, rules: SandboxRules, always: set[str], opened: Existing) -> tuple[Path, ...]:
    found: list[Path] = []
    for path, real in paths:
        # Masking would hide the working directory inside; the user chose to work there.
        if any(is_below(str(folder), (real,)) for folder in rules.working_dirs):
            continue
        if path not in always and is_below(real, (folder for _path, folder in opened)):
            continue
        found.append(Path(real))
    return tuple(found)


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths that are not inside another: a masked folder has no inner paths to mask."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: path.parts):
        if not kept or not is_below(str(path), (str(kept[-1]),)):
            kept.append(path)
    return tuple(kept)
