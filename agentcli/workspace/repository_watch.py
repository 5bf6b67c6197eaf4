"""What one submission does to the repository around a folder, besides its files: commits, and entries of git's index.

An undo restores the index entries that git commands of the submission changed, as long as nobody has changed them or
committed since. Commits and branches stay and are reported. What the user stages is never recorded: only what changed
while a command that names git ran, and nothing of what the user changed between two calls.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.files.access import read_bounded
from agentcli.core.frozen import frozen, slotted
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.workspace.attribution import NamedFiles
from agentcli.workspace.base import SnapshotError
from agentcli.workspace.git import head_commit
from agentcli.workspace.journal import EntryChange, StagedChanges
from agentcli.workspace.restore import parents
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import ABSENT, TreeEntry

_MAX_INDEX = 32 * 1024 * 1024
_GIT = re.compile(r"\bgit\b")

OpenShadow = Callable[[Path], Awaitable[Shadow]]


@frozen
class _Repository:
    """The state of a repository before a call."""

    head: str | None
    index: str
    stamp: tuple[int, int, int] | None
    """Changes when git writes the index; None without one."""
    content: bytes


@slotted
class RepositoryWatch:
    _heads: dict[str, str | None] = field(default_factory=dict)
    """By folder, the commit checked out at the start."""
    _before: dict[str, _Repository] = field(default_factory=dict)
    """By folder, the state before the running call."""
    _staged: dict[str, dict[str, EntryChange]] = field(default_factory=dict)
    _by_user: set[tuple[str, str]] = field(default_factory=set)
    """Folder and path of entries that the user has changed too."""
    _unreadable: set[str] = field(default_factory=set)
    """Folders whose changed index needs other files of the repository, such as a split or a sparse one."""

    async def begin_call(self, roots: Iterable[str]) -> None:
        self._before = await in_thread(partial(self._look, list(roots)))
        for root, one in self._before.items():
            self._heads.setdefault(root, one.head)

    def _look(self, roots: Iterable[str]) -> dict[str, _Repository]:
        found = {}
        for root in roots:
            top = repository_root(root)
            if top is not None:
                found[root] = _read(Path(root), top, self._before.get(root))
        return found

    async def end_call(self, command: str, shadow: OpenShadow) -> None:
        """Record which index entries the call has changed. Raises OSError."""
        before = self._before
        now = await in_thread(partial(self._look, list(before)))
        for root, one in now.items():
            old, self._before[root] = before[root], one
            if one.head != old.head:
                # What was staged before is part of the commit or of another branch.
                self._staged.pop(root, None)
            elif one.stamp != old.stamp and one.index == old.index and _GIT.search(command):
                try:
                    await self._note(await shadow(Path(root)), old.content, one.content, command)
                except SnapshotError:
                    self._staged.pop(root, None)
                    self._unreadable.add(root)

    async def _note(self, shadow: Shadow, old: bytes, new: bytes, command: str) -> None:
        root = str(shadow.root)
        staged = self._staged.setdefault(root, {})
        changes = _changes(await shadow.index_entries(old), await shadow.index_entries(new))
        # The user may have staged something meanwhile: if the command names files, the others are not its own.
        words = NamedFiles()
        words.add_input({"command": command})
        named = [path for path in changes if any(words.has(root, one) for one in (path, *parents(path)))]
        for path in named or changes:
            was, now = changes[path]
            first, last = staged.pop(path, (was, was))
            if last != was:
                self._by_user.add((root, path))
            if first != now and (root, path) not in self._by_user:
                staged[path] = (first, now)

    def staged(self) -> dict[str, StagedChanges]:
        """By folder, the index entries that the submission changed."""
        found = {}
        for root, files in self._staged.items():
            # Without a state the repository is gone, or the folder has no snapshots any more.
            if files and (one := self._before.get(root)) is not None:
                found[root] = StagedChanges(one.index, one.head or "", dict(files))
        return found

    def list_missed(self) -> list[str]:
        """A sentence for everything that an undo leaves as it is: commits, an index that it cannot read. Blocking."""
        unread = [
            f"Undo cannot read git's index in {root}: what was staged stays staged. To unstage a file: git restore "
            "--staged FILE."
            for root in sorted(self._unreadable)
        ]
        texts: dict[tuple[str | None, str], str] = {}
        for root, was in self._heads.items():
            now = head_commit(Path(root))
            if now is None or now == was or (was, now) in texts:
                continue
            since = f"went from commit {was[:10]} to {now[:10]}" if was else f"got its first commit, {now[:10]},"
            text = f"The repository of {root} {since} meanwhile: "
            texts[was, now] = text + "undo does not change commits and branches; use git for that."
        return [*texts.values(), *unread]


async def index_reversal(shadow: Shadow, staged: StagedChanges, again: bool) -> dict[str, TreeEntry]:
    """The entries to write for an undo (`again`: a redo): of those that are as the submission (the undo) left them.

    Empty if there is another commit since: what is in the index then belongs to it. Raises `SnapshotError`.
    """
    top = repository_root(shadow.root)
    now = await in_thread(partial(_read, shadow.root, top)) if top is not None else None
    if now is None or now.index != staged.index or (now.head or "") != staged.head:
        return {}
    entries = await shadow.index_entries(now.content)
    wanted = {path: (last, first) if again else (first, last) for path, (first, last) in staged.files.items()}
    return {path: back for path, (back, left) in wanted.items() if entries.get(path, (ABSENT,)) == (left,)}


def _changes(
    old: Mapping[str, tuple[TreeEntry, ...]], new: Mapping[str, tuple[TreeEntry, ...]]
) -> dict[str, EntryChange]:
    """Changed entries; without those that are part of a conflict, which have several."""
    pairs = {path: (old.get(path, (ABSENT,)), new.get(path, (ABSENT,))) for path in {**old, **new}}
    return {
        path: (was[0], now[0]) for path, (was, now) in pairs.items() if was != now and len(was) == len(now) == 1
    }  # fmt: skip


def _read(root: Path, top: Path, known: _Repository | None = None) -> _Repository:
    """Read the state of a repository; the index only if it is another one than the `known`. Never raises."""
    head = head_commit(root)
    index = os.path.realpath(git_folder(top)[0]) + "/index"
    try:
        status = os.lstat(index)
    except OSError:
        return _Repository(head, index, None, b"")
    stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    if known is not None and (known.index, known.stamp) == (index, stamp):
        return _Repository(head, index, stamp, known.content)
    content = read_bounded(index, _MAX_INDEX)
    if not isinstance(content, bytes) or not stat.S_ISREG(status.st_mode):
        return _Repository(head, "", None, b"")
    return _Repository(head, index, stamp, content)
