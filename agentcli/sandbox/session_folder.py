"""The private folder of a session, its `/tmp`, and the launcher without a sandbox."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.exit_cleanup import on_exit
from agentcli.core.processes.launch import Launch, Launcher
from agentcli.core.text.patterns import lazy_pattern
from agentcli.sandbox.secrets import VARIABLES

PREFIX = "agentcli-"
_LOCK = "lock"
_MAX_DEPTH = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", 0)
_MAX_LEFTOVERS = 200


class SessionFolder:
    """A session's private folder. The constructor creates it and raises OSError if that fails."""

    def __init__(self, root: Path) -> None:
        self.path, self._lock = _lock_folder(root)
        self._process = os.getpid()
        self._forget = on_exit(self.remove)

    def remove(self) -> None:
        """Remove the folder once all its commands have ended. A second call, or one in a fork, does nothing."""
        if self._lock < 0 or os.getpid() != self._process:
            return
        lock, self._lock = self._lock, -1
        self._forget()
        with contextlib.suppress(OSError):
            _remove(self.path)
        os.close(lock)


class TempFolder:
    """The temp folder of a session's commands, inside its private folder: made when it is first needed, removed on
    `close` or with this object."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: SessionFolder | None = None
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Raises OSError if it cannot be made."""
        with self._lock:
            if self._folder is None:
                folder = SessionFolder(self._root)
                try:
                    (folder.path / "tmp").mkdir(0o700)
                except OSError:
                    folder.remove()
                    raise
                weakref.finalize(self, folder.remove)
                self._folder = folder
            return self._folder.path / "tmp"

    def close(self) -> None:
        """Nothing may run in it any more."""
        with self._lock:
            if self._folder is not None:
                self._folder.remove()
            self._folder = None


def command_variables(environ: Mapping[str, str], temp: Path, sandbox: str) -> dict[str, str]:
    """The variables of a sandboxed command, without those that give access to helpers outside."""
    kept = {name: value for name, value in environ.items() if name not in VARIABLES}
    return {**kept, **_named_temp(temp), "AGENTCLI_SANDBOXED": sandbox}


def _named_temp(temp: Path) -> dict[str, str]:
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temp))


def _lock_folder(root: Path) -> tuple[Path, int]:
    from tempfile import mkdtemp

    while True:
        folder = Path(os.path.realpath(mkdtemp(prefix=PREFIX, dir=root)))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A concurrent clean-up may have taken the lock first; then the folder is already removed.
        if os.fstat(lock).st_nlink == 1:
            return folder, lock
        os.close(lock)


def remove_leftovers(root: Path) -> int:
    """Remove the folders of this user's killed sessions and return their number. Never raises."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(PREFIX)][:_MAX_LEFTOVERS]
        for name in names:
            with contextlib.suppress(OSError):
                removed += _remove_if_abandoned(root / name)
    return removed


def _remove_if_abandoned(folder: Path) -> bool:
    descriptor = os.open(folder, _FOLDER)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
            return False
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=descriptor)
        try:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                return False
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
            return True
        finally:
            os.close(lock)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder completely, including read-only folders and very deep trees.

    The lock is removed last, so that the next start finds the rest after an interruption.
    """
    top = os.open(folder, _FOLDER)
    try:
        remover = _Remover(top)
        for _round in range(10_000):
            remover.empty(top, 0, keep=_LOCK)
            if not remover.moved:
                break
            remover.moved = False
        os.unlink(_LOCK, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


class _Remover:
    def __init__(self, top: int) -> None:
        self._top = top
        self._number = 0
        self.moved = False

    def empty(self, folder: int, depth: int, keep: str = "") -> None:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if entry.name != keep]
        for name, is_folder in found:
            # One failure must not stop the removal of the others.
            with contextlib.suppress(OSError):
                self._remove_one(folder, name, depth, is_folder=is_folder)

    def _remove_one(self, folder: int, name: str, depth: int, *, is_folder: bool) -> None:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            return
        if depth >= _MAX_DEPTH:
            self._number += 1
            os.rename(name, f"deep-{os.getpid()}-{self._number}", src_dir_fd=folder, dst_dir_fd=self._top)
            self.moved = True
            return
        _make_writable(folder, name)
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            self.empty(inner, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _make_writable(folder: int, name: str) -> None:
    """Make a folder writable through a descriptor instead of its name, so that a link cannot redirect the change."""
    if not _PATH_ONLY:
        return
    inner = os.open(name, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(inner).st_mode) & 0o700 != 0o700:
            Path(f"/proc/self/fd/{inner}").chmod(0o700)
    finally:
        os.close(inner)


SYSTEM_TEMP = "/tmp"  # noqa: S108 - its name, which commands use
_MAX_NEIGHBOURS = 20
_PRIVATE = lazy_pattern(
    r"(?:agentcli-|ssh-|tmux-|systemd-private|snap-private|gpg-|\.X|\.ICE|\.font|\.Test|dbus-|pulse-)"
)
"""Folders of agents, sockets and other sessions, which commands must not see."""


def outside(path: str, own: Path, visible: Iterable[Path]) -> str:
    """Map a path as a command names it to the path outside the sandbox.

    `visible`: folders in the system's temp folder that commands see under their real path.
    """
    relative = _below(path, SYSTEM_TEMP)
    if relative is None or _below(path, str(own)) is not None:
        return path
    if any(_below(path, str(folder)) is not None for folder in visible):
        return path
    moved = str(own / relative) if relative else str(own)
    return path if os.path.lexists(path) and not os.path.lexists(moved) else moved


def inside(path: str, own: Path) -> str:
    """The path of a temp file as commands and the user know it."""
    relative = _below(path, str(own))
    return path if relative is None else f"{SYSTEM_TEMP}/{relative}".rstrip("/")


def neighbours(working_dirs: Iterable[Path], text: str) -> list[Path]:
    """Entries of the system's temp folder that a command of a project below it can read: the one that contains the
    project, and those that `text` (a command or a path) names.

    Only those that belong to this user, and no sockets. Not all of them: a mount for each would double the time that a
    sandbox takes to start.
    """
    own = {relative.split("/")[0] for folder in working_dirs if (relative := _below(str(folder), SYSTEM_TEMP))}
    if not own:
        return []
    try:
        entries = [entry for entry in os.scandir(SYSTEM_TEMP) if entry.name in own or f"/{entry.name}" in text]
    except OSError:
        return []
    return sorted(Path(entry.path) for entry in entries if _is_shown(entry))[:_MAX_NEIGHBOURS]


def _is_shown(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    kind_fits = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return kind_fits and status.st_uid == os.geteuid() and not _PRIVATE.match(entry.name)


def _below(path: str, folder: str) -> str | None:
    """The path relative to the folder; empty for the folder itself, None elsewhere."""
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


class UnsandboxedLauncher(Launcher):
    """Runs commands without a sandbox."""

    def __init__(self, temp_root: Path, level: str = "off") -> None:
        super().__init__(level)
        self._temp_root = temp_root
        self._temp = TempFolder(temp_root)
        self._temp_is_usable = True

    def for_copies(self, copies: Mapping[Path, Path], _kept: Iterable[Path]) -> UnsandboxedLauncher:
        """The same for commands that work in copies of the working directories, and a temp folder of its own."""
        made = UnsandboxedLauncher(self._temp_root, self.level)
        made.copies = copies
        return made

    @property
    def temp_folder(self) -> Path | None:
        """None if it could not be made, which is tried only once."""
        try:
            return self._temp.path if self._temp_is_usable else None
        except OSError:
            self._temp_is_usable = False
            return None

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        own = self.temp_folder
        return super().launch(arguments, cwd, environ if own is None else {**environ, **_named_temp(own)}, grant)

    def close(self) -> None:
        self._temp.close()
