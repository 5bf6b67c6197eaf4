"""Snapshots of all folders of a session together, which folders failed, and pruning of old snapshots.

Nested repositories found on the way are treated as separate folders. Pruning deletes snapshots of sessions older than
30 days and of unused folders, and more of those above the size limit; it runs in the background, at most once a day.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from hashlib import sha256
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.files.removal import remove_below
from agentcli.core.frozen import slotted
from agentcli.workspace.base import Snapshot, SnapshotError, SnapshotLocation, TooManyFiles
from agentcli.workspace.git import find_git
from agentcli.workspace.shadow import Shadow

Roots = dict[str, Snapshot]
_WARMING_SECONDS = 120.0
_MAX_NESTED = 16
_MAX_FAILURES = 3
"""After this many failed submissions a folder is not tried again in this process."""


@slotted
class SnapshotResult:
    snapshots: Roots = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons by folder, for folders without a snapshot."""


class SnapshotFolders:
    """The snapshot folders of one session. Not safe for concurrent use, except inside `take`."""

    def __init__(self, place: SnapshotLocation) -> None:
        self._place = place
        self._shadows: dict[str, Shadow] = {}
        self._failures: Counter[str] = Counter()
        self._known: set[Path] = set()
        self.problems: dict[str, str] = {}
        """Reasons by folder, for folders whose last snapshot failed."""
        self.tried: set[Path] = set()
        """Folders of which a snapshot was taken, or failed."""
        self._skipped: dict[Path, None] = {}
        """Repositories beyond the limit."""

    @property
    def uncovered(self) -> list[Path]:
        """Paths in the folders that undo does not cover, without those that a tool can rebuild."""
        files = [shadow.root / path for shadow in self.shadows for path in shadow.limits.refused]
        return [*files, *self.unwatched, *map(Path, self.problems)]

    @property
    def unwatched(self) -> list[Path]:
        """Those whose changes are not even noticed."""
        ignored = [shadow.root / path for shadow in self.shadows for path in shadow.ignored_files.uncovered]
        return [*ignored, *self._skipped]

    @property
    def shadows(self) -> list[Shadow]:
        return list(self._shadows.values())

    async def take(
        self,
        roots: Iterable[Path],
        forced: Mapping[str, Iterable[str]],
        without: Iterable[str],
        seconds: float | None = None,
        with_ignored: bool = False,
    ) -> SnapshotResult:
        """Take snapshots of these folders, except those in `without`, and of their nested repositories.

        For `with_ignored` see `Shadow.take`.
        """
        taken = SnapshotResult()
        wanted = list(dict.fromkeys(roots))
        self._known.update(wanted)
        self.tried.update(wanted)
        left_out = {*without, *(root for root, times in self._failures.items() if times >= _MAX_FAILURES)}
        waiting = [root for root in wanted if str(root) not in left_out]
        snapshot_seconds = (
            self._place.snapshot_seconds if seconds is None else min(seconds, self._place.snapshot_seconds)
        )
        deadline = asyncio.get_running_loop().time() + snapshot_seconds
        while waiting:
            work = (self._take_one(root, forced.get(str(root), ()), deadline, with_ignored) for root in waiting)
            results = await asyncio.gather(*work)
            found: list[Path] = []
            for root, result in zip(waiting, results, strict=True):
                if isinstance(result, str):
                    self._failures[str(root)] += 1
                    taken.failed[str(root)] = self.problems[str(root)] = result
                    continue
                self.problems.pop(str(root), None)
                taken.snapshots[str(root)] = result
                found += [root / name for name in sorted(result.nested)]
            seen = taken.snapshots.keys() | taken.failed.keys() | left_out
            room = max(0, _MAX_NESTED - len(taken.snapshots))
            waiting = [root for root in found if str(root) not in seen]
            self._skipped.update(dict.fromkeys(waiting[room:]))
            waiting = waiting[:room]
        return taken

    async def _take_one(
        self, root: Path, forced: Iterable[str], deadline: float, with_ignored: bool
    ) -> Snapshot | str:  # fmt: skip
        left = deadline - asyncio.get_running_loop().time()
        try:
            shadow = await self.shadow(root)
            snapshot = await shadow.take(max(left, 0.1), forced, with_ignored)
            await self.hold(shadow, snapshot.tree)
        except SnapshotError as error:
            return str(error)
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return snapshot

    async def look_through(self, roots: Sequence[Path]) -> None:
        """Index the folders without keeping a snapshot, so that the next snapshot is quick."""
        self._known.update(roots)
        for root in roots:
            # A failure is reported when a snapshot is needed.
            with suppress(SnapshotError, OSError):
                await (await self.shadow(root)).take(_WARMING_SECONDS)

    async def hold(self, shadow: Shadow, tree: str) -> None:
        await in_thread(lambda: shadow.hold(self._place.session_id, tree))

    async def shadow(self, root: Path) -> Shadow:
        """The shadow repository of a folder, opened on first use. Raises `SnapshotError` and OSError."""
        if root == root.parent:
            raise TooManyFiles("it is the root of the file system")
        shadow = self._shadows.get(str(root))
        if shadow is None:
            program = find_git(self._place.search_path, [*self._known, root])
            if program is None:
                raise SnapshotError("git was not found; install it to use undo")
            place = self._place.folder / "folders" / _key(root)
            index = f"index.{self._place.session_id}.{os.getpid()}"
            made = Shadow(program, root, place, index, self._place.state_dir)

            def opened() -> None:
                make_private(place)
                made.open()

            await in_thread(opened)
            shadow = self._shadows[str(root)] = made
        return shadow

    async def aclose(self) -> None:
        def closed() -> None:
            for shadow in self._shadows.values():
                shadow.close()

        await in_thread(closed)
        self._shadows.clear()


def distinct(folders: Sequence[Path]) -> list[Path]:
    """The folders, without those inside another one."""
    return [
        one
        for one in dict.fromkeys(folders)
        if not any(one != other and one.is_relative_to(other) for other in folders)
    ]


def home_of(path: Path, roots: Sequence[Path]) -> Path | None:
    """The folder that a path belongs to: its nested repository, else its root; None if outside all roots."""
    root = next((root for root in roots if path != root and path.is_relative_to(root)), None)
    if root is None:
        return None
    for parent in path.parents:
        if parent == root or os.path.lexists(parent / ".git"):
            return parent
    return root


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents with access for this user only. Raises OSError."""
    missing = []
    current = folder
    while not current.exists():
        missing.append(current)
        current = current.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _key(root: Path) -> str:
    name = "".join(ch if ch.isalnum() and ch.isascii() else "-" for ch in root.name)[:40]
    return f"{name}-{sha256(os.fsencode(root)).hexdigest()[:16]}"


KEEP_SECONDS = 30 * 86_400
KEEP_WHEN_LARGE_SECONDS = 3 * 86_400
MAX_SHADOW_SIZE = 2 * 1024**3
PRUNE_EVERY_SECONDS = 86_400
_STALE_INDEX_SECONDS = 86_400
"""Age of temporary index files that a crash left behind."""
_TIDY_SECONDS = 120.0
"""Time limit of git's garbage collection."""
_MANY_LOOSE_OBJECTS = 5_000
_GARBAGE = "garbage"
"""File in a shadow repository whose snapshots were removed, and not yet what they have stored."""


async def prune(folder: Path, in_use: Iterable[Shadow]) -> None:
    """Prune the snapshots in a folder if the last time is a day ago. The shadow repositories `in_use` are only shrunk.
    Never raises for I/O or git errors."""
    shadows = list(in_use)
    try:
        # File times are wall-clock times, so this is measured against the wall clock too.
        if not await in_thread(lambda: is_due(folder / "pruned", time.time())):
            return
        await in_thread(lambda: _drop_old(folder, {shadow.place for shadow in shadows}, time.time()))
        for shadow in shadows:
            if await in_thread(partial(shrink, shadow.place, time.time())):
                await shadow.tidy(_TIDY_SECONDS)
    except (OSError, SnapshotError):
        # Old copies only take space; pruning is tried again the next day.
        return


def forget(folder: Path, session_id: str) -> int:
    """Remove the undo journal and the snapshots of a session; returns the bytes freed at once. What the snapshots have
    stored is freed when old snapshots are pruned. Raises OSError."""
    freed = remove_below(folder, f"sessions/{session_id}.jsonl")
    for place in _children(folder / "folders"):
        with suppress(OSError):  # not a folder, or a link
            if remove_below(folder, f"folders/{place.name}/refs/snapshots/{session_id}"):
                (place / _GARBAGE).touch(mode=0o600)
            for index in place.glob(f"index.{session_id}.*"):
                freed += remove_below(folder, f"folders/{place.name}/{index.name}")
    return freed


def is_due(mark: Path, now: float) -> bool:
    """Whether the last run of daily work is long ago; records this one. Raises OSError."""
    if (age := _age(mark, now)) is not None and age < PRUNE_EVERY_SECONDS:
        return False
    mark.touch(mode=0o600)
    os.utime(mark)
    return True


def _drop_old(folder: Path, in_use: set[Path], now: float) -> None:
    for journal in _children(folder / "sessions"):
        if (_age(journal, now) or 0) > KEEP_SECONDS:
            journal.unlink(missing_ok=True)
    for place in _children(folder / "folders"):
        used = [_age(path, now) for path in (place / "index", *_children(place / "refs" / "snapshots"))]
        ages = [age for age in used if age is not None]
        if place not in in_use and ages and min(ages) > KEEP_SECONDS:
            shutil.rmtree(place, ignore_errors=True)


def shrink(place: Path, now: float) -> bool:
    """Drop old sessions of one shadow repository; true if git should collect garbage."""
    limit = KEEP_WHEN_LARGE_SECONDS if _size(place / "objects") > MAX_SHADOW_SIZE else KEEP_SECONDS
    dropped = (place / _GARBAGE).exists()
    (place / _GARBAGE).unlink(missing_ok=True)
    for session in _children(place / "refs" / "snapshots"):
        if (_age(session, now) or 0) > limit:
            shutil.rmtree(session, ignore_errors=True)
            dropped = True
    for index in _children(place):
        if index.name.startswith("index.") and (_age(index, now) or 0) > _STALE_INDEX_SECONDS:
            index.unlink(missing_ok=True)
    loose = sum(1 for folder in _children(place / "objects") for _one in _children(folder) if len(folder.name) == 2)
    return dropped or loose > _MANY_LOOSE_OBJECTS


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _age(path: Path, now: float) -> float | None:
    try:
        return now - path.stat().st_mtime
    except OSError:
        return None


def _size(folder: Path) -> int:
    total = 0
    for parent, _folders, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total
