"""Mounts of the Linux sandbox: what a command can see and write.

The order makes the sandbox safe, because later mounts cover earlier ones: the file system is read-only, working
directories are writable, protected paths in them are read-only again, and finally secrets are covered, including those
in a working directory.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.core.files.links import is_below, real_path
from agentcli.core.frozen import frozen
from agentcli.sandbox import session_folder
from agentcli.sandbox.caches import CacheFolders
from agentcli.sandbox.filtered_files import FilteredCopies
from agentcli.sandbox.plan import Masks, SandboxRules
from agentcli.sandbox.quarantine.protected import Protection, folders_between
from agentcli.shell.paths import Resolved

_HIDDEN = (Path("/run"), Path("/tmp"))  # noqa: S108 - hidden, not used
"""Folders with sockets of programs that act for any client: session buses, tmux, container engines."""
_HIDDEN_PREFIXES = tuple(f"{folder}/" for folder in _HIDDEN)
_NEEDED_IN_RUN = ("/run/current-system", "/run/opengl-driver", "/run/wrappers")
_SOCKETS = Path("/proc/net/unix")
"""The kernel's list of Unix sockets, with the paths that they were bound to."""
_REFUSING_FILE = "/dev/null"
"""Mounted over a file that must not be read or connected to. Bubblewrap's mounts allow no devices, so opening it fails
even for root, whom no file mode stops. An empty file would not do: git would commit it, but it ignores a device."""


class SessionFiles:
    """The session's private folder: the commands' /tmp, and the files mounted over secrets."""

    def __init__(self, folder: Path) -> None:
        """`folder` must exist and be empty. Raises OSError."""
        self.folder = folder
        self.temp = folder / "tmp"
        self.empty = folder / "empty"
        self.no_folder = folder / "no-folder"
        self.filtered = FilteredCopies(folder / "filtered")
        self.temp.mkdir(0o700)
        self.empty.touch(0o444)
        self.no_folder.mkdir(0o000)


@frozen(kw_only=True)
class CommandTraits:
    """What the mounts of a command depend on."""

    text: str
    search_path: str
    network: bool
    """Whether it shares the machine's network."""
    is_git: bool
    """Whether it runs git, which would record files that only look removed or changed."""
    reads_only: bool
    """Whether nothing but its temp folder is writable."""
    has_unix_sockets: bool = True
    """Whether it can use Unix sockets; not where system calls are filtered as in strict mode."""


class Mounts:
    """The mounts of one command."""

    def __init__(
        self, rules: SandboxRules, masks: Masks, files: SessionFiles, caches: CacheFolders, command: CommandTraits
    ) -> None:
        self._rules = rules
        self._masks = masks
        self._files = files
        self._caches = caches
        self._command = command
        self._is_git = command.is_git
        self._shown = _shown(rules, command.search_path)
        self._neighbours = session_folder.neighbours(rules.working_dirs, command.text)

    def arguments(self, protected: Protection, granted: Sequence[Path], resolved: Resolved) -> list[str]:
        """Arguments for bubblewrap. `granted`: more folders and files that this command may write."""
        return [*self._system(resolved), *self._folders(protected, granted, resolved), *self._covers()]

    def dropped_capabilities(self) -> tuple[str, ...]:
        """Capabilities to drop: root would see a covered folder as empty, and git would record its files as removed."""
        if not self._is_git or os.geteuid() != 0:
            return ()
        covered = any(path.is_dir() and self._is_worked_in(path) for path in self._masks.refused)
        return ("--cap-drop", "CAP_DAC_OVERRIDE") if covered else ()

    def _system(self, resolved: Resolved) -> list[str]:
        made = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        if os.geteuid() == 0:
            # Kernel settings in /proc check for uid 0, not for a capability; writing core_pattern would run any
            # program.
            made += ["--remount-ro", "/proc"]
        for folder in (*_needed_in_run(resolved), *(path for path in self._shown if is_below(str(path), ("/run",)))):
            made += _bind(folder, writable=False)
        return [*made, "--remount-ro", "/run"]

    def _folders(self, protected: Protection, granted: Sequence[Path], resolved: Resolved) -> list[str]:
        made = ["--bind", str(self._files.temp), "/tmp"]  # noqa: S108 - a folder of ours in its place
        for folder in self._neighbours:
            # Another process may have removed it meanwhile.
            made += ["--ro-bind-try", str(folder), str(folder)]
        made += _bind(self._files.temp, writable=True)
        for folder in self._shown:
            if not is_below(str(folder), ("/run",)):
                made += _bind(folder, writable=False)
        caches = self._caches.mounts(resolved)
        made += ["--ro-bind" if word == "--bind" else word for word in caches] if self._command.reads_only else caches
        if self._command.reads_only:
            # Read-only already, unless they are in a hidden folder.
            for folder in self._rules.working_dirs:
                made += _bind(folder, writable=False)
            return made
        for folder in _unmovable((*self._rules.working_dirs, *self._further_writable(), *granted), resolved):
            made += _bind(folder, writable=True)
        for folder in protected.writable:
            made += _bind(folder, writable=True)
        for path in (*protected.read_only, *self._read_only_elsewhere(protected)):
            made += _bind(path, writable=False)
        return made

    def _read_only_elsewhere(self, protected: Protection) -> list[Path]:
        """The installation above a working directory, or in a folder that the settings make writable."""
        writable = (*self._rules.working_dirs, *self._further_writable())
        return [
            path
            for path in self._rules.installation
            if path not in protected.read_only
            and any(is_below(str(path), (str(folder),)) or is_below(str(folder), (str(path),)) for folder in writable)
        ]

    def _is_worked_in(self, path: Path) -> bool:
        return is_below(str(path), map(str, self._rules.working_dirs))

    def _covers(self) -> list[str]:
        """Mounts that cover secrets. They come last, so that nothing covers them."""
        rules, masks = self._rules, self._masks
        visible = (*self._shown, *rules.working_dirs, *rules.allow_write, *self._neighbours)
        made: list[str] = []
        # Files beside a reopened one look deleted, which git would record.
        closed = [str(path) for path in masks.refused if self._is_git and self._is_worked_in(path)]
        reopened = [path for path in masks.reopened if not is_below(str(path), closed)]
        for path in masks.refused:
            if not _is_visible(path, visible):
                continue
            if not path.is_dir():
                made += ["--ro-bind", _REFUSING_FILE, str(path)]
                continue
            # Traversable but not listable, so that reopened paths inside can be reached. A bind mount would take ten
            # times as long, and a home folder may have a hundred of these.
            leads_on = any(is_below(str(opened), (str(path),)) for opened in reopened)
            made += ["--perms", "0111" if leads_on else "0000", "--tmpfs", str(path)]
            made += [] if leads_on else ["--remount-ro", str(path)]
        refused = [*map(str, masks.refused)]
        has_none = self._command.network or not self._command.has_unix_sockets
        for folder in () if has_none else _socket_folders():
            # A program outside acts for whoever connects, also through a read-only mount.
            if _is_visible(folder, visible) and not is_below(str(folder), refused):
                for socket in _sockets_in(folder):
                    made += ["--ro-bind", _REFUSING_FILE, socket]
        for path in masks.emptied:
            if _is_visible(path, visible) and (shown_as := self._shown_as(path)):
                made += ["--ro-bind", shown_as, str(path)]
        for path in dict.fromkeys((*reopened, *(path for path in rules.readable if path not in masks.reopened))):
            if path.exists():
                made += _bind(path, writable=False)
        return made

    def _shown_as(self, path: Path) -> str:
        """The file mounted over one that has settings and secrets; empty if it holds no secret."""
        if path.is_dir():
            return str(self._files.no_folder)
        if self._is_git and self._is_worked_in(path):
            # The file may be tracked, and no tracked file may look changed. Git does not start without its own
            # settings.
            return "" if path in self._masks.settings else _REFUSING_FILE
        clean = self._masks.filters.get(path)
        if clean is None:
            return str(self._files.empty)
        copy = self._files.filtered.copy_of(path, clean)
        return "" if copy == path else str(copy or self._files.empty)

    def _further_writable(self) -> list[Path]:
        """Other writable folders, but none inside a working directory, where a command could replace it by a link."""
        found = [path for path in self._rules.allow_write if path.exists() and not self._is_worked_in(path)]
        if self._caches.own is not None:
            found.append(self._caches.own)
        return found


def _socket_folders() -> list[Path]:
    """Folders in which Unix sockets of this machine were bound; for relative names, all in which a program runs."""
    try:
        lines = _SOCKETS.read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    names = {fields[7] for line in lines if len(fields := line.split(None, 7)) == 8 and not fields[7].startswith("@")}
    bases = {"/"}
    if not all(name.startswith("/") for name in names):
        for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with contextlib.suppress(OSError):
                bases.add(os.readlink(f"/proc/{process}/cwd"))  # noqa: PTH115
    places = {real_path(os.path.dirname(os.path.join(base, name))) for base in bases for name in names}  # noqa: PTH118, PTH120
    return [Path(place) for place in sorted(places) if os.path.isdir(place)]  # noqa: PTH112


def _sockets_in(folder: Path) -> list[str]:
    """All sockets there, because a program may rename or link the one that it has bound."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        special = (entry for entry in entries if not entry.is_file(follow_symlinks=False) and not entry.is_symlink())
        return [entry.path for entry in special if not entry.is_dir() and stat.S_ISSOCK(entry.stat().st_mode)]
    return []


def _shown(rules: SandboxRules, search_path: str) -> list[Path]:
    """Needed parts of the hidden folders: programs on the PATH, a home folder there, and an installation of agentcli,
    whose Python runs in the sandbox, too."""
    found = [*rules.installation] if rules.home is None else [rules.home, *rules.installation]
    for entry in search_path.split(os.pathsep):
        # Most are elsewhere, and `Path` objects before every command cost as much as the mounts themselves.
        if entry.startswith(_HIDDEN_PREFIXES):
            folder = Path(entry)
            found.append(folder.parent if folder.name in ("bin", "sbin", "Scripts") else folder)
    shown = []
    for path in dict.fromkeys(found):
        hidden = str(path).startswith(_HIDDEN_PREFIXES)
        if hidden and path.exists() and not any(is_below(str(root), (str(path),)) for root in _HIDDEN):
            shown.append(path)
    return sorted(shown)


def _bind(path: Path, *, writable: bool) -> list[str]:
    return ["--bind" if writable else "--ro-bind", str(path), str(path)]


def _unmovable(folders: Iterable[Path], resolved: Resolved) -> list[Path]:
    """Writable folders, outer ones first, including those between one and another inside it.

    As separate mounts they cannot be renamed and replaced by a link, whose target the next command could write.
    """
    roots = tuple(dict.fromkeys(folders))
    found = sorted({*roots, *folders_between(roots, roots)}, key=lambda folder: folder.parts)
    return [folder for folder in found if resolved[str(folder)] == str(folder)]


def _is_visible(path: Path, visible: Iterable[Path]) -> bool:
    return not is_below(str(path), map(str, _HIDDEN)) or is_below(str(path), map(str, visible))


def _needed_in_run(resolved: Resolved) -> list[Path]:
    """Paths in /run needed for name resolution, and for programs on some systems."""
    found = list(_NEEDED_IN_RUN)
    resolver = resolved["/etc/resolv.conf"]
    if is_below(resolver, ("/run",)) and not is_below(resolver, found):
        found.append(resolver)
    return [Path(path) for path in found if os.path.exists(path)]  # noqa: PTH110 - before every command
