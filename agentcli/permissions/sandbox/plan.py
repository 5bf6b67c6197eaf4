"""What a sandbox allows (folders, secrets, network), independent of the back end.

`SandboxRules` holds the settings and flags; `Masks` holds those of the paths that exist on this machine right now.
Reads the file system, never changes it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

from agentcli.core.files.listed_names import ListedNames
from agentcli.core.files.real_path import is_below
from agentcli.core.frozen import frozen
from agentcli.permissions.paths import Resolved
from agentcli.permissions.sandbox.filtered_files import FILTERS, Filter
from agentcli.permissions.sandbox.limits import ResourceLimits
from agentcli.permissions.sandbox.network.upstream import Upstream
from agentcli.permissions.sandbox.secrets import EMPTY, FILTERED_ONLY, SYSTEM, UNREADABLE

_BELOW_HOME = (*UNREADABLE, *EMPTY, *FILTERED_ONLY)
_LISTED_FROM = 8
"""A folder is listed once if at least this many names in it have to be checked."""
home_names = ListedNames()
"""Cached listings of the home folder and of folders in it."""
PathFinder = Callable[[], Iterable[Path]]
Existing = tuple[tuple[str, str], ...]
"""Paths that exist, each with the path it resolves to."""


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
    """Readable exceptions in `own_folders`: the stored results of this session."""
    denied_files: PathFinder = _nothing
    """Returns the files hidden by deny rules; called at every launch, so it must be fast."""
    excluded_commands: tuple[str, ...] = ()
    """Prefixes of commands that run outside the sandbox."""
    cache_dir: Path | None = None
    """Folder for caches of package tools, since the user's own are read-only; None for no cache."""
    installation: tuple[Path, ...] = ()
    """Files that run agentcli (`core.processes.installation`) or that it runs for hooks and servers, resolved:
    read-only even in a working directory."""
    limits: ResourceLimits = ResourceLimits()
    can_ask: bool = True
    """Whether the session is interactive, so that the user can approve."""
    upstream: Upstream | None = None
    """The proxy that this machine must use, for connections to allowed hosts."""

    def for_trial(self, folders: TrialFolders, limits: ResourceLimits | None = None) -> SandboxRules:
        """The same rules applied to scratch folders."""
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
    """Scratch folders for trying out a sandbox. All exist, are absolute and contain no links."""

    project: Path
    installation: Path
    """Inside the project, like agentcli in a project's `.venv`."""
    home: Path
    secret: Path
    """A file that must not be readable."""
    state: Path
    """For caches and the quarantine, which commands must not reach."""

    @property
    def quarantine(self) -> Path:
        return self.state / "quarantine"


@frozen
class Masks:
    """Existing paths to mask, resolved; none of them is or contains a working directory."""

    refused: tuple[Path, ...]
    emptied: tuple[Path, ...]
    reopened: tuple[Path, ...]
    """Paths inside masked ones that stay readable."""
    filters: Mapping[Path, Filter] = field(default_factory=dict)
    """Filters for those paths of `emptied` that only lose their secrets."""
    settings: frozenset[Path] = frozenset()
    """Those paths of `emptied` that are mainly settings."""

    @property
    def all(self) -> tuple[Path, ...]:
        return (*self.refused, *self.emptied)


def find_masks(rules: SandboxRules, resolved: Resolved | None = None) -> Masks:
    """Find the paths to mask. `resolved`: cache of resolved paths for the same command."""
    found = _find_existing(rules, Resolved() if resolved is None else resolved)
    return _masks(found, rules.working_dirs, rules.deny_read, rules.home)


@frozen
class _Found:
    """The existing paths that a sandbox masks or opens."""

    refused: Existing
    emptied: Existing
    denied: Existing
    readable: Existing
    opened: Existing


def _find_existing(rules: SandboxRules, resolved: Resolved) -> _Found:
    def existing(paths: Iterable[Path | str]) -> Existing:
        # Most paths do not exist, and checking that is ten times faster than resolving links.
        there = (str(path) for path in paths if os.path.exists(path))  # noqa: PTH110 - some dozens before a command
        return tuple((text, resolved[text]) for text in there)

    refused = existing((*rules.own_folders, *rules.deny_read, *(SYSTEM if os.geteuid() == 0 else ())))
    emptied: Existing = ()
    if rules.home is not None:
        present = _present(str(rules.home))
        refused += tuple((text, resolved[text]) for place, text in present if place < len(UNREADABLE))
        emptied = tuple((text, resolved[text]) for place, text in present if place >= len(UNREADABLE))
    own = [resolved[str(folder)] for folder in rules.own_folders]
    # A link may lead to another masked path, which stays masked.
    readable = tuple(one for one in existing(rules.readable) if is_below(one[1], own))
    return _Found(refused, emptied, existing(rules.denied_files()), readable, existing(rules.allow_read))


@functools.lru_cache(maxsize=8)
def _masks(found: _Found, working_dirs: tuple[Path, ...], deny_read: tuple[Path, ...], home: Path | None) -> Masks:
    """Compute the masks. Cached, because the input is the same for almost every command of a session."""
    refused = _maskable(found.refused, working_dirs, set(map(str, deny_read)), found.opened)
    refused = _outermost((*refused, *(Path(real) for _path, real in found.denied)))
    readable = [Path(real) for _path, real in (*found.readable, *found.opened)]
    reopened = [path for path in readable if is_below(str(path), map(str, refused))]
    names = {Path(real): str(Path(path).relative_to(home)) for path, real in found.emptied if home}
    return Masks(
        refused,
        _outermost(_maskable(found.emptied, working_dirs, set(), found.opened)),
        tuple(dict.fromkeys(reopened)),
        {path: FILTERS[name] for path, name in names.items() if name in FILTERS},
        frozenset(path for path, name in names.items() if name in FILTERED_ONLY),
    )


def _present(home: str) -> list[tuple[int, str]]:
    """Existing paths of `_BELOW_HOME` with their index there, in its order; dangling links excluded.

    If two of them are the same file, the last one decides. Most are missing: `Path` objects would cost a millisecond,
    exceptions half of one, and names known to be missing are not checked.
    """
    found: list[tuple[int, str]] = []
    at_home = home_names.of(home)
    for folder, paths in _by_folder(home).items():
        listed = at_home
        if folder != home:
            name = folder.rpartition("/")[2].lower()
            if (at_home is not None and name not in at_home) or not os.access(folder, os.F_OK):
                continue
            listed = home_names.of(folder) if len(paths) >= _LISTED_FROM else None
        there = paths if listed is None else [each for each in paths if each[2] in listed]
        found += [each[:2] for each in there if os.access(each[1], os.F_OK)]
    return sorted(found)


def learn_names(rules: SandboxRules) -> None:
    """List the folders that would contain most of the masked paths and needed caches, so that fewer paths have to be
    checked before a command. Blocking."""
    if rules.home is not None:
        below = _by_folder(str(rules.home)).items()
        home_names.learn(folder for folder, paths in below if len(paths) >= _LISTED_FROM)
        home_names.learn([str(rules.home / ".cache")])


@functools.lru_cache(maxsize=8)
def _by_folder(home: str) -> dict[str, list[tuple[int, str, str]]]:
    """Group the paths of `_BELOW_HOME` by folder: the home folder, or the first folder below it.

    Each entry has its index, the path, and its first name in that folder in lower case.
    """
    base = home.rstrip("/")
    found: dict[str, list[tuple[int, str, str]]] = {}
    for place, name in enumerate(_BELOW_HOME):
        folder, slash, rest = name.partition("/")
        inner = (rest if slash else name).partition("/")[0].lower()
        found.setdefault(f"{base}/{folder}" if slash else home, []).append((place, f"{base}/{name}", inner))
    return found


def _maskable(paths: Existing, working_dirs: Iterable[Path], always: set[str], opened: Existing) -> tuple[Path, ...]:
    found: list[Path] = []
    for path, real in paths:
        # Masking would hide the working directory inside, where the user chose to work.
        if any(is_below(str(folder), (real,)) for folder in working_dirs):
            continue
        if path not in always and is_below(real, (folder for _path, folder in opened)):
            continue
        found.append(Path(real))
    return tuple(found)


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths that are not inside another: a masked folder needs no masks inside."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: path.parts):
        if not kept or not is_below(str(path), (str(kept[-1]),)):
            kept.append(path)
    return tuple(kept)
