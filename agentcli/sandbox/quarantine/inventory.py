"""Inventory of the repositories below the working directories and the files in them that git obeys.

The first walk reads every folder, later ones only those whose change time (ctime) differs, which a program cannot set.
Walks are limited in folders and time, and report whether they were complete. A new entry changes its folder's change
time, so folders that changed since a command began come first. Nothing is modified.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.shell.git_config import completes_repository, read_regular

MAX_FOLDERS = 20_000
MAX_SECONDS = 0.5
_MAX_KEPT = 100_000
"""Maximum cached folders; others are read again by each walk."""
_MAX_REPORTED = 3
_LAST = frozenset({"node_modules", "target", ".venv", "venv", "build", "dist", "__pycache__", ".tox", "vendor"})
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE: the clock that change times are taken from, so that both can be compared exactly."""
CONTROLS = ("config", "config.worktree", "commondir", "gitdir")

Kind = Literal["folder", "file", "link", "bare"]
Signature = tuple[int, int, int, int]


@frozen
class Repository:
    kind: Kind
    path: Path
    """The `.git`, or the bare repository's folder."""


@frozen
class RepositoryState:
    """The files of a repository that git obeys, at one moment."""

    signatures: tuple[tuple[str, Signature], ...]
    contents: tuple[tuple[str, bytes], ...]
    hooks: tuple[tuple[str, Signature], ...]
    """Active hooks, without samples, which git ignores."""

    @property
    def newest(self) -> int:
        return max((found[3] for _name, found in (*self.signatures, *self.hooks)), default=0)

    def content(self, name: str) -> bytes | None:
        return dict(self.contents).get(name)


@frozen
class _Folder:
    signature: Signature
    inner: tuple[str, ...]
    kind: Kind | None
    bare: bool


class FolderWalk:
    """One walk through the folders, with its limits and progress."""

    def __init__(self, since: int, may_continue: Callable[[int], bool] | None = None) -> None:
        """`since`: when the command began, in ns. `may_continue`: called before each folder with the number of folders
        so far; None: the limits that apply while a command's result waits."""
        self.since = since
        self.complete = False
        self.changed = 0
        """Number of folders that changed since the command began."""
        self.unread: dict[str, Signature] = {}
        """Folders that could not be listed."""
        self.is_late = may_continue is not None
        deadline = time.monotonic() + MAX_SECONDS
        self.may_continue = may_continue or (lambda count: count < MAX_FOLDERS and time.monotonic() <= deadline)

    @property
    def is_flooded(self) -> bool:
        """Whether the walk was cut short because of folders that the command itself made or changed."""
        return not self.complete and self.changed > MAX_FOLDERS // 2


class Inventory:
    """One per launcher. Safe to use from several threads."""

    def __init__(self, roots: Iterable[Path], excluded: Iterable[Path] = ()) -> None:
        """`excluded`: agentcli's own folders that may be below a root."""
        self._roots = tuple(roots)
        self._excluded = frozenset(map(str, excluded))
        self._folders: dict[str, _Folder] = {}
        self._known: dict[Path, RepositoryState] = {}
        self._guard = threading.Lock()
        self.complete = False
        """Whether a walk was complete; after that, unknown repositories are new."""
        self._reported = False
        self._unseen: int | None = None
        self.cut_since: int | None = None
        """Start of the first command whose folders were not searched completely yet, in ns."""

    @property
    def size(self) -> int:
        """Number of cached folders."""
        return len(self._folders)

    def unseen_since(self, began: int) -> int:
        """Time from which an unknown repository may come from a command.

        This is `began`, or earlier if a folder could not be listed, or was not reached, at the end of an earlier
        command.
        """
        return min(time for time in (began, self._unseen, self.cut_since) if time is not None)

    def note_unread(self, walk: FolderWalk, began: int) -> list[str]:
        """Record and return the folders that a walk could not list and that changed since a command `began`."""
        found = [path for path, signature in walk.unread.items() if signature[3] >= began]
        if found:
            self._unseen = self.unseen_since(began)
        return found[:_MAX_REPORTED]

    def is_first_cut(self) -> bool:
        """Whether no incomplete walk has been reported yet; marks it as reported."""
        first = not self._reported
        self._reported = True
        return first

    def known(self, path: Path) -> RepositoryState | None:
        return self._known.get(path)

    def remember(self, path: Path, state: RepositoryState) -> None:
        self._known[path] = state

    def forget(self, path: Path) -> None:
        self._known.pop(path, None)

    def begin(self, before: int, walk: FolderWalk | None = None) -> None:
        """Remember the repositories unchanged since `before` (in ns), because a command is already running."""
        for repository in self.follow(walk or FolderWalk(before)):
            state = state_of(repository)
            if repository.path not in self._known and state.newest < before:
                self._known[repository.path] = state

    def follow(self, walk: FolderWalk) -> Iterator[Repository]:
        """Walk the folders and yield the repositories found."""
        first, waiting, later = deque[str](), deque(map(str, self._roots)), deque[str]()
        fresh: dict[str, _Folder] = {}
        gone = set[Path]() if walk.is_late else set(self._known)
        since, may_continue = walk.since, walk.may_continue
        count = 0
        while queue := first or waiting or later:
            if not may_continue(count):
                self._keep(fresh, complete=False)
                return
            path = queue.popleft()
            count += 1
            folder = None if path in fresh or path in self._excluded else self._look(path, walk)
            if folder is None:
                continue
            if len(fresh) < _MAX_KEPT:
                fresh[path] = folder
            is_changed = folder.signature[3] >= since
            if is_changed:
                walk.changed += 1
            if folder.kind is not None or folder.bare:
                for repository in _repositories(path, folder):
                    gone.discard(repository.path)
                    yield repository
            if folder.inner:
                base, soon = path.rstrip("/"), first if is_changed else waiting
                for name in folder.inner:
                    (later if name in _LAST else soon).append(f"{base}/{name}")
        walk.complete = True
        self._keep(fresh, complete=True)
        for known in gone:
            self.forget(known)

    def _keep(self, fresh: dict[str, _Folder], *, complete: bool) -> None:
        with self._guard:
            if complete or len(self._folders) > _MAX_KEPT:
                self._folders = fresh
            else:
                self._folders.update(fresh)
            self.complete = complete

    def _look(self, path: str, walk: FolderWalk) -> _Folder | None:
        signature = signature_of(path)
        known = self._folders.get(path)
        if signature is None or (known is not None and known.signature == signature):
            return known if signature is not None else None
        inner: list[str] = []
        names: list[str] = []
        kind: Kind | None = None
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        kind = "link" if entry.is_symlink() else "folder" if entry.is_dir() else "file"
                    elif entry.is_dir(follow_symlinks=False):
                        inner.append(entry.name)
                    names.append(entry.name)
        except OSError:
            walk.unread[path] = signature
            return None
        return _Folder(signature, tuple(inner), kind, completes_repository(names))


def _repositories(path: str, folder: _Folder) -> Iterator[Repository]:
    if folder.kind is not None:
        yield Repository(folder.kind, Path(path, ".git"))
    if folder.bare:
        yield Repository("bare", Path(path))


def change_time() -> int:
    """The change time that a file would get now, in ns."""
    return time.clock_gettime_ns(_COARSE_CLOCK)


def signature_of(path: str | Path) -> Signature | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns)


def state_of(repository: Repository) -> RepositoryState:
    path = repository.path
    files = {"": path} if repository.kind in ("file", "link") else {name: path / name for name in CONTROLS}
    signatures = {name: found for name, file in files.items() if (found := signature_of(file)) is not None}
    contents = {}
    for name in signatures:
        data = None if stat.S_ISLNK(signatures[name][1]) else read_regular(files[name])
        if data is not None:
            contents[name] = data
    hooks = active_hooks(path / "hooks") if repository.kind in ("folder", "bare") else {}
    return RepositoryState(tuple(signatures.items()), tuple(contents.items()), tuple(hooks.items()))


def active_hooks(folder: Path) -> dict[str, Signature]:
    """Hooks that git would run, without samples. A `hooks` that is not a real folder counts as one hook."""
    own = signature_of(folder)
    if own is None:
        return {}
    if not stat.S_ISDIR(own[1]):
        return {"": own}
    try:
        names = [name for name in os.listdir(folder) if not name.endswith(".sample")]  # noqa: PTH208
    except OSError:
        return {"": own}
    return {name: found for name in sorted(names) if (found := signature_of(folder / name)) is not None}
