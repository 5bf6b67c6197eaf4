"""The repositories below the working directories: which there are, and what of them git obeys.

The first walk reads every folder, later ones only those whose change time is another one, which a program cannot set.
Bounded by folders and time; whether it came to the end is part of the answer. Changes nothing.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.permissions.gitconfig import read_regular
from agentcli.permissions.gitfiles import completes_repository

MOST_FOLDERS = 20_000
MOST_SECONDS = 0.5
_MOST_REPORTED = 3
_LAST = frozenset({"node_modules", "target", ".venv", "venv", "build", "dist", "__pycache__", ".tox", "vendor"})
CONTROLS = ("config", "config.worktree", "commondir", "gitdir")

Kind = Literal["folder", "file", "link", "bare"]
Signature = tuple[int, int, int, int]


@frozen
class Repository:
    kind: Kind
    path: Path
    """The `.git`, or the bare repository's folder."""


@frozen
class State:
    """What git obeys of a repository at one moment."""

    signatures: tuple[tuple[str, Signature], ...]
    contents: tuple[tuple[str, bytes], ...]
    hooks: tuple[tuple[str, Signature], ...]
    """Active ones: git ignores samples."""

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


class Inventory:
    """One per launcher. Safe to use from several threads."""

    def __init__(self, roots: Iterable[Path], excluded: Iterable[Path] = ()) -> None:
        """`excluded`: folders of our own that may lie below a root."""
        self._roots = tuple(roots)
        self._excluded = frozenset(map(str, excluded))
        self._folders: dict[str, _Folder] = {}
        self._known: dict[Path, State] = {}
        self._guard = threading.Lock()
        self.complete = False
        """Whether a walk came to its end: what is not known after that is new."""
        self._reported = False
        self._unread: dict[str, Signature] = {}
        self._unseen: int | None = None

    def unseen_since(self, began: int) -> int:
        """From when on a repository that is not known may be a command's: `began`, or earlier where one was hidden in a
        folder that could not be listed at the end of its command."""
        return began if self._unseen is None else min(began, self._unseen)

    def note_unread(self, began: int) -> list[str]:
        """The folders that the last walk could not list, of those that changed since a command `began`."""
        found = [path for path, signature in self._unread.items() if signature[3] >= began]
        if found:
            self._unseen = self.unseen_since(began)
        return found[:_MOST_REPORTED]

    def is_first_cut(self) -> bool:
        """Whether the last walk was cut short, and nobody was told so before."""
        first = not self.complete and not self._reported
        self._reported = self._reported or first
        return first

    def walk(self) -> list[Repository]:
        with self._guard:
            return self._walk()

    def known(self, path: Path) -> State | None:
        return self._known.get(path)

    def remember(self, repository: Repository) -> None:
        self._known[repository.path] = state_of(repository)

    def forget(self, path: Path) -> None:
        self._known.pop(path, None)

    def begin(self, before: int) -> None:
        """Remember what is there, as far as it has not changed since `before`, in ns: a command runs already."""
        for repository in self.walk():
            state = state_of(repository)
            if repository.path not in self._known and state.newest < before:
                self._known[repository.path] = state

    def _walk(self) -> list[Repository]:
        waiting, later = deque(map(str, self._roots)), deque[str]()
        fresh: dict[str, _Folder] = {}
        found: list[Repository] = []
        self._unread = {}
        deadline = time.monotonic() + MOST_SECONDS
        while waiting or later:
            if len(fresh) >= MOST_FOLDERS or time.monotonic() > deadline:
                self._folders.update(fresh)
                self.complete = False
                return found
            path = waiting.popleft() if waiting else later.popleft()
            folder = self._look(path)
            if folder is None or path in fresh or path in self._excluded:
                continue
            fresh[path] = folder
            if folder.kind is not None:
                found.append(Repository(folder.kind, Path(path, ".git")))
            if folder.bare:
                found.append(Repository("bare", Path(path)))
            for name in folder.inner:
                (later if name in _LAST else waiting).append(f"{path.rstrip('/')}/{name}")
        self._folders = fresh
        self.complete = True
        paths = {repository.path for repository in found}
        self._known = {path: state for path, state in self._known.items() if path in paths}
        return found

    def _look(self, path: str) -> _Folder | None:
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
            self._unread[path] = signature
            return None
        return _Folder(signature, tuple(inner), kind, completes_repository(names))


def signature_of(path: str | Path) -> Signature | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns)


def state_of(repository: Repository) -> State:
    path = repository.path
    files = {"": path} if repository.kind in ("file", "link") else {name: path / name for name in CONTROLS}
    signatures = {name: found for name, file in files.items() if (found := signature_of(file)) is not None}
    contents = {}
    for name in signatures:
        data = None if stat.S_ISLNK(signatures[name][1]) else read_regular(files[name])
        if data is not None:
            contents[name] = data
    hooks = active_hooks(path / "hooks") if repository.kind in ("folder", "bare") else {}
    return State(tuple(signatures.items()), tuple(contents.items()), tuple(hooks.items()))


def active_hooks(folder: Path) -> dict[str, Signature]:
    """What git would run: everything but samples. A `hooks` that is no folder of its own counts as one hook."""
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
