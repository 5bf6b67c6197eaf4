"""Delete old snapshots: of sessions older than 30 days, of unused folders, and more of those above the size limit.

Runs in the background, at most once a day for all folders together, and may be cancelled at any point.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.workspace.base import SnapshotError
from agentcli.workspace.shadow import Shadow

KEEP_SECONDS = 30 * 86_400
KEEP_WHEN_LARGE_SECONDS = 3 * 86_400
LARGEST_SHADOW = 2 * 1024**3
PRUNE_EVERY_SECONDS = 86_400
_STALE_INDEX_SECONDS = 86_400
"""Age of temporary index files that a crash left behind."""
_TIDY_SECONDS = 120.0
"""Time limit of git's garbage collection."""
_MANY_LOOSE_OBJECTS = 5_000


@dataclass(frozen=True, slots=True)
class PruneSchedule:
    folder: Path
    """Parent of all snapshots."""
    every: float
    """Seconds between two runs."""

    async def run(self, in_use: Iterable[Shadow]) -> None:
        """Prune if it is due. The shadow repositories `in_use` are only shrunk. Never raises for I/O or git errors."""
        shadows = list(in_use)
        try:
            # File times are wall-clock times, so this is measured against the wall clock too.
            if not await in_thread(lambda: self._due(time.time())):
                return
            kept = {shadow.place for shadow in shadows}
            await in_thread(lambda: self._drop_old(kept, time.time()))
            for shadow in shadows:
                if await in_thread(partial(shrink, shadow.place, time.time())):
                    await shadow.tidy(_TIDY_SECONDS)
        except (OSError, SnapshotError):
            # Old copies only take space; pruning is tried again the next day.
            return

    def _due(self, now: float) -> bool:
        """Whether the last run is long ago; records this one."""
        mark = self.folder / "pruned"
        if (age := _age(mark, now)) is not None and age < self.every:
            return False
        mark.touch(mode=0o600)
        os.utime(mark)
        return True

    def _drop_old(self, in_use: set[Path], now: float) -> None:
        for journal in _children(self.folder / "sessions"):
            if (_age(journal, now) or 0) > KEEP_SECONDS:
                journal.unlink(missing_ok=True)
        for place in _children(self.folder / "folders"):
            used = [_age(path, now) for path in (place / "index", *_children(place / "refs" / "snapshots"))]
            ages = [age for age in used if age is not None]
            if place not in in_use and ages and min(ages) > KEEP_SECONDS:
                shutil.rmtree(place, ignore_errors=True)


def shrink(place: Path, now: float) -> bool:
    """Drop old sessions of one shadow repository; true if git should collect garbage."""
    limit = KEEP_WHEN_LARGE_SECONDS if _size(place / "objects") > LARGEST_SHADOW else KEEP_SECONDS
    dropped = False
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
