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

from agentcli.core.files.access import is_below, real_path
from agentcli.core.frozen import frozen
from agentcli.sandbox.caches import CacheFolders
from agentcli.sandbox.filtered_files import FilteredCopies
from agentcli.sandbox.plan import Masks, SandboxRules
from agentcli.sandbox.quarantine.protected import Protection, folders_between

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
        """`folder` must exist and contain nothing but the temp folder. Raises OSError."""
        self.folder = folder
        self.temp = folder / "tmp"
        self.empty = folder / "empty"
        self.no_folder = folder / "no-folder"
        self.filtered = FilteredCopies(folder / "filtered")
        self.empty.touch(0o444)
        self.no_folder.mkdir(0o000)


@frozen(kw_only=True)
class Mounts:
    """The mounts of one command."""

    rules: SandboxRules
    masks: Masks
    files: SessionFiles
    caches: CacheFolders
    shown: Sequence[Path]
    """See `shown_folders`."""
    neighbours: Sequence[Path]
    """See `session_folder.neighbours`."""
    is_git: bool
    """Whether the command runs git, which would record files that only look removed or changed."""
    reads_only: bool
    """Whether nothing but its temp folder is writable."""
    hides_sockets: bool
    """Whether Unix sockets of this machine have to be covered."""

    def arguments(self, protected: Protection, granted: Sequence[Path]) -> list[str]:
        """Arguments for bubblewrap. `granted`: more folders and files that this command may write."""
        return [*self._system(), *self._folders(protected, granted), *self._covers()]

    def list_dropped_capabilities(self) -> tuple[str, ...]:
        """Capabilities to drop: root would see a covered folder as empty, and git would record its files as removed."""
        if not self.is_git or os.geteuid() != 0:
            return ()
        covered = any(path.is_dir() and self._is_worked_in(path) for path in self.masks.refused)
        return ("--cap-drop", "CAP_DAC_OVERRIDE") if covered else ()

    def _system(self) -> list[str]:
        made = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        if os.geteuid() == 0:
            # Kernel settings in /proc check for uid 0, not for a capability; writing core_pattern would run any
            # program.
            made += ["--remount-ro", "/proc"]
        for folder in (*_list_needed_in_run(), *(path for path in self.shown if is_below(str(path), ("/run",)))):
            made += _bind(folder, writable=False)
        return [*made, "--remount-ro", "/run"]

    def _folders(self, protected: Protection, granted: Sequence[Path]) -> list[str]:
        made = ["--bind", str(self.files.temp), "/tmp"]  # noqa: S108 - a folder of ours in its place
        for folder in self.neighbours:
            # Another process may have removed it meanwhile.
            made += ["--ro-bind-try", str(folder), str(folder)]
        made += _bind(self.files.temp, writable=True)
        for folder in self.shown:
            if not is_below(str(folder), ("/run",)):
                made += _bind(folder, writable=False)
        caches = self.caches.mounts()
        made += ["--ro-bind" if word == "--bind" else word for word in caches] if self.reads_only else caches
        if self.rules.copies:
            return [*made, *self._copies()]
        if self.reads_only:
            # Read-only already, unless they are in a hidden folder.
            for folder in self.rules.working_dirs:
                made += _bind(folder, writable=False)
            return made
        for folder in _unmovable((*self.rules.working_dirs, *self._further_writable(), *granted)):
            made += _bind(folder, writable=True)
        for folder in protected.writable:
            made += _bind(folder, writable=True)
        for path in (*protected.read_only, *self._read_only_elsewhere(protected)):
            made += _bind(path, writable=False)
        return made

    def _copies(self) -> list[str]:
        made: list[str] = []
        for folder in () if self.reads_only else _unmovable(self._further_writable()):
            made += _bind(folder, writable=True)
        for folder, copy in sorted(self.rules.copies.items()):
            made += ["--bind", str(copy), str(folder)]
        for path in self.rules.kept:
            made += ["--ro-bind-try", str(path), str(path)]
        return made

    def _read_only_elsewhere(self, protected: Protection) -> list[Path]:
        """The installation above a working directory, or in a folder that the settings make writable."""
        writable = (*self.rules.working_dirs, *self._further_writable())
        return [
            path
            for path in self.rules.installation
            if path not in protected.read_only
            and any(is_below(str(path), (str(folder),)) or is_below(str(folder), (str(path),)) for folder in writable)
        ]

    def _is_worked_in(self, path: Path) -> bool:
        return is_below(str(path), map(str, self.rules.working_dirs))

    def _covers(self) -> list[str]:
        """Mounts that cover secrets. They come last, so that nothing covers them."""
        rules, masks = self.rules, self.masks
        visible = (*self.shown, *rules.working_dirs, *rules.allow_write, *self.neighbours)
        made: list[str] = []
        # Files beside a reopened one look deleted, which git would record.
        closed = [str(path) for path in masks.refused if self.is_git and self._is_worked_in(path)]
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
        for folder in _socket_folders() if self.hides_sockets else ():
            # A program outside acts for whoever connects, also through a read-only mount.
            if _is_visible(folder, visible) and not is_below(str(folder), refused):
                for socket in _sockets_in(folder):
                    made += ["--ro-bind", _REFUSING_FILE, socket]
        for path in masks.emptied:
            if _is_visible(path, visible) and (shown_as := self._find_shown_as(path)):
                made += ["--ro-bind", shown_as, str(path)]
        for path in dict.fromkeys((*reopened, *(path for path in rules.readable if path not in masks.reopened))):
            if path.exists():
                made += _bind(path, writable=False)
        return made

    def _find_shown_as(self, path: Path) -> str:
        """The file mounted over one that has settings and secrets; empty if it holds no secret."""
        if path.is_dir():
            return str(self.files.no_folder)
        if self.is_git and self._is_worked_in(path):
            # The file may be tracked, and no tracked file may look changed. Git does not start without its own
            # settings.
            return "" if path in self.masks.settings else _REFUSING_FILE
        clean = self.masks.filters.get(path)
        if clean is None:
            return str(self.files.empty)
        copy = self.files.filtered.copy_of(path, clean)
        return "" if copy == path else str(copy or self.files.empty)

    def _further_writable(self) -> list[Path]:
        """Other writable folders, but none inside a working directory, where a command could replace it by a link."""
        found = [path for path in self.rules.allow_write if path.exists() and not self._is_worked_in(path)]
        if self.caches.own is not None:
            found.append(self.caches.own)
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


def shown_folders(rules: SandboxRules, search_path: str) -> list[Path]:
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


def _unmovable(folders: Iterable[Path]) -> list[Path]:
    """Writable folders, outer ones first, including those between one and another inside it.

    As separate mounts they cannot be renamed and replaced by a link, whose target the next command could write.
    """
    roots = tuple(dict.fromkeys(folders))
    found = sorted({*roots, *folders_between(roots, roots)}, key=lambda folder: folder.parts)
    return [folder for folder in found if real_path(folder) == str(folder)]


def _is_visible(path: Path, visible: Iterable[Path]) -> bool:
    return not is_below(str(path), map(str, _HIDDEN)) or is_below(str(path), map(str, visible))


def _list_needed_in_run() -> list[Path]:
    """Paths in /run needed for name resolution, and for programs on some systems."""
    found = list(_NEEDED_IN_RUN)
    resolver = real_path("/etc/resolv.conf")
    if is_below(resolver, ("/run",)) and not is_below(resolver, found):
        found.append(resolver)
    return [Path(path) for path in found if os.path.exists(path)]  # noqa: PTH110 - before every command


_UNWRITTEN_TIME = 1_000_000_000
"""Modification time, in ns, set on a file created for a command, to detect whether the command has written it."""


class WritablePaths:
    """Approved paths outside the working directories, created if needed so that they can be mounted. Close it when the
    command has ended."""

    def __init__(self, paths: Iterable[Path], closed: Sequence[Path], home: Path | None) -> None:
        """`closed`: paths that no approval makes writable, such as credentials and agentcli's own folders."""
        self._created: list[Path] = []
        self.paths = tuple(dict.fromkeys(self._mountable(paths, closed, home)))

    def _mountable(self, paths: Iterable[Path], closed: Sequence[Path], home: Path | None) -> Iterable[Path]:
        for path in paths:
            real = Path(os.path.realpath(path))
            if any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in closed):
                continue
            if real == Path("/") or (home is not None and home.is_relative_to(real)):
                # Too broad for one command: it contains start-up files of shells and programs.
                continue
            if real.exists() or self._create(real):
                yield real

    def _create(self, path: Path) -> bool:
        """Create an empty file to mount over. Its folder stays read-only, because only the file was approved."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        try:
            os.utime(descriptor, ns=(_UNWRITTEN_TIME, _UNWRITTEN_TIME))
        finally:
            os.close(descriptor)
        self._created.append(path)
        return True

    def close(self) -> None:
        for path in self._created:
            with contextlib.suppress(OSError):
                status = path.lstat()
                # `touch` also leaves an empty file, but changes its time.
                if status.st_size == 0 and status.st_mtime_ns == _UNWRITTEN_TIME:
                    path.unlink()
