"""What a sandbox allows (folders, secrets, network), independent of the back end.

`SandboxRules` holds the settings and flags; `Masks` holds those of the paths that exist on this machine right now.
Reads the file system, never changes it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.sandbox.filtered_files import FILTERS, Filter
from agentcli.sandbox.limits import ResourceLimits
from agentcli.sandbox.secrets import EMPTY, FILTERED_ONLY, SYSTEM, holds_credentials, list_closed_at_home
from agentcli.shell.paths import real_path


@frozen
class Upstream:
    """A proxy that this machine must use. Its credentials stay outside the sandbox."""

    host: str
    port: int
    authorization: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Upstream | None:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
            parts = urlsplit(environ.get(name, ""))
            if parts.scheme in ("http", "https") and parts.hostname:
                user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
                encoded = base64.b64encode(user.encode()).decode() if parts.username else ""
                return cls(parts.hostname, parts.port or 80, f"Basic {encoded}" if encoded else "")
        return None


_SYSTEM_FOLDERS = tuple("/usr /etc /opt /nix /gnu /var /bin /lib /snap /run /dev /proc /sys".split())  # noqa: SIM905
PathFinder = Callable[[], Iterable[Path]]
Existing = tuple[tuple[str, str], ...]
"""Paths that exist, each with the path it resolves to."""


def _find_nothing() -> Iterable[Path]:
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
    denied_files: PathFinder = _find_nothing
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
    copies: Mapping[Path, Path] = field(default_factory=dict)
    """By working directory, the folder that commands see and change in its place."""
    kept: tuple[Path, ...] = ()
    """Paths in those working directories that commands see as they are, read-only."""

    def for_copies(self, copies: Mapping[Path, Path], kept: Iterable[Path]) -> SandboxRules:
        """The same rules with copies in place of the working directories, which cannot be changed."""
        return replace(self, working_dirs=tuple(copies), copies=copies, kept=tuple(kept), excluded_commands=())

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
            denied_files=_find_nothing,
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


def find_masks(rules: SandboxRules) -> Masks:
    """Find the paths to mask."""

    def existing(paths: Iterable[Path | str]) -> Existing:
        # Most paths do not exist, and checking that is ten times faster than resolving links.
        there = (str(path) for path in paths if os.path.exists(path))  # noqa: PTH110 - some dozens before a command
        return tuple((text, real_path(text)) for text in there)

    closed = existing((*rules.own_folders, *rules.deny_read, *(SYSTEM if os.geteuid() == 0 else ())))
    settings: Existing = ()
    if rules.home is not None:
        closed += tuple(_list_closed(str(rules.home)))
        settings = existing(f"{rules.home}/{name}" for name in (*EMPTY, *FILTERED_ONLY))
    own = [real_path(str(folder)) for folder in rules.own_folders]
    opened = existing((*rules.allow_read, *rules.installation))
    # A link may lead to another masked path, which stays masked.
    readable = [path for _name, path in existing(rules.readable) if is_below(path, own)]
    denied = (Path(path) for _name, path in existing(rules.denied_files()))
    refused = _maskable(closed, rules.working_dirs, set(map(str, rules.deny_read)), opened)
    refused = _outermost((*refused, *denied))
    names = {Path(path): name.removeprefix(f"{rules.home}/") for name, path in settings}
    visible = [Path(path) for path in (*readable, *(path for _name, path in opened))]
    return Masks(
        refused,
        _outermost(_maskable(settings, rules.working_dirs, set(), opened)),
        tuple(dict.fromkeys(path for path in visible if is_below(str(path), map(str, refused)))),
        {path: FILTERS[name] for path, name in names.items() if name in FILTERS},
        frozenset(path for path, name in names.items() if name in FILTERED_ONLY),
    )


def _list_closed(home: str) -> Iterator[tuple[str, str]]:
    for path in list_closed_at_home(home):
        real = real_path(path) if os.path.islink(path) else path  # noqa: PTH114
        if real != path:
            # A link to what is judged by its own name, or to a part of the system, closes nothing.
            inner = real.removeprefix(f"{real_path(home)}/")
            if is_below(home, (real,)) or (inner[0] == "." if inner != real else is_below(real, _SYSTEM_FOLDERS)):
                continue
        yield path, real


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


_OWN_IN_THE_SANDBOX = tuple(map(Path, ("/dev", "/proc", "/run", "/var/run", "/tmp", "/private/tmp", "/var/tmp")))  # noqa: S108
"""Folders that the sandbox replaces with its own, so commands cannot read the machine's."""


def commands_can_read(rules: SandboxRules, real: str) -> bool:
    """Whether a sandboxed command can read a resolved path, including everything in a folder."""
    path = Path(real)
    if rules.home is not None and holds_credentials(real, str(rules.home)):
        return False
    masks = find_masks(rules)
    # agentcli's own folders count even before they exist.
    hidden = (*_OWN_IN_THE_SANDBOX, *rules.own_folders, *rules.deny_read, *masks.all)
    return not any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in hidden)
