"""Changes between two snapshots to files without a copy, detected by their stamps.

Reads the disk and changes nothing. Functions that block are marked; call them in a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from agentcli.workspace import listing
from agentcli.workspace.base import ChangeKind, Snapshot
from agentcli.workspace.listing import stamp_of
from agentcli.workspace.trees import Difference


def uncovered_changes(
    root: Path, before: Snapshot, after: Snapshot, trees: Mapping[str, Difference]
) -> dict[str, ChangeKind]:
    """Changes to files of which one of two snapshots has no copy; `trees`: the difference of their trees. Blocking.

    The stamp on disk decides: a file may be hidden by a new ignore file instead of removed, and one that is copied only
    now need not have changed.
    """
    found: dict[str, ChangeKind] = {}
    for path in sorted(before.uncovered.keys() | after.uncovered.keys()):
        was, became = before.uncovered.get(path), after.uncovered.get(path)
        if was == became or before.is_foreign(path):
            continue
        there = disk_stamp(root / path) if became is None else became
        if there == was:
            continue
        one = trees.get(path)
        existed = was is not None or (one is not None and one.before.exists)
        exists = there is not None or (one is not None and one.after.exists)
        found[path] = "modified" if existed and exists else "added" if exists else "deleted"
    return found


def lost(root: Path, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Removed files without a copy. A moved file does not count: its stamp is found elsewhere. Blocking."""
    moved = {stamp for path, stamp in now.items() if path not in before}
    return [
        path
        for path, stamp in sorted(before.items())
        if path not in now and stamp not in moved and not os.path.lexists(root / path)
    ]


def disk_stamp(path: Path) -> str | None:
    """The current stamp of a file; None if it does not exist. Blocking."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stamp_of(status) if stat.S_ISREG(status.st_mode) else None


def why_uncovered(stamps: Collection[str | None]) -> str:
    """Reason why a file with one of these stamps has no copy, as half a sentence."""
    sizes = [int(stamp.split(" ")[0]) for stamp in stamps if stamp]
    reason = "too large" if max(sizes, default=0) > listing.ALWAYS_COPIED else "unreadable"
    return f"{reason}, no copy kept"
