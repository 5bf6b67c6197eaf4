"""Classify the files of a folder: new, changed, removed, empty, ignored, too large or a nested repository.

Also finds changes to files without a copy, by their stamps. Reads the disk and changes nothing. Blocking; called in a
thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentcli.config.paths import PROJECT_FILES, PROJECT_FOLDER
from agentcli.core.files.rebuildable import CACHES, OUTPUT, is_virtual_environment
from agentcli.core.frozen import frozen, slotted
from agentcli.workspace.base import ChangeKind, Snapshot
from agentcli.workspace.trees import Difference

ALWAYS_COPIED = 5 * 1024 * 1024
MAX_COPIED = 50 * 1024 * 1024
LARGE_TOGETHER = 100 * 1024 * 1024
"""Maximum bytes of files over `ALWAYS_COPIED` that a process copies for a folder, old versions included.

That takes one to two seconds; with much more the first snapshot could time out, and then nothing could be undone.
"""
MAX_IGNORED_FILES = 1_000
MAX_IGNORED_BYTES = 32 * 1024 * 1024
"""Limits for the files in folders that git ignores. A folder beyond them is not copied at all."""
_MAX_LOOKS = 2_000
"""Maximum entries of new folders that are checked for emptiness."""


@slotted
class FileListing:
    """Output of `git ls-files -t`, by kind. Folders are listed without a trailing slash."""

    others: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def parse_listing(output: bytes) -> FileListing:
    listed = FileListing()
    for entry in output.split(b"\0"):
        if len(entry) < 3:
            continue
        tag, path = entry[:1], os.fsdecode(entry[2:])
        if tag == b"?":
            (listed.folders if path.endswith("/") else listed.others).append(path.rstrip("/"))
        elif tag == b"R":
            listed.removed.append(path)
        elif tag == b"C":
            listed.changed.append(path)
    gone = set(listed.removed)
    listed.changed = [path for path in listed.changed if path not in gone]
    return listed


@slotted
class FolderKinds:
    nested: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)


def sort_folders(root: Path, folders: Iterable[str]) -> FolderKinds:
    """Classify untracked folders. An empty one is represented by its deepest folders."""
    found = FolderKinds()
    looks = _MAX_LOOKS
    for folder in folders:
        if os.path.lexists(root / folder / ".git"):
            found.nested.append(folder)
            continue
        leaves: list[str] = []
        waiting, holds_files = [folder], False
        while waiting and not holds_files:
            current = waiting.pop()
            deeper = []
            with contextlib.suppress(OSError), os.scandir(root / current) as entries:
                for entry in entries:
                    looks -= 1
                    if looks < 0 or not entry.is_dir(follow_symlinks=False):
                        holds_files = True
                        break
                    deeper.append(f"{current}/{entry.name}")
            waiting += deeper
            if not deeper:
                leaves.append(current)
        if holds_files:
            found.filled.append(folder)
        else:
            found.empty += leaves
    return found


@slotted
class IgnoredFiles:
    files: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    """Repositories."""
    rebuildable: list[str] = field(default_factory=list)
    """Folders that a tool can rebuild."""
    uncovered: list[str] = field(default_factory=list)
    """Files and folders beyond the limits."""


def may_be_output(folder: str) -> bool:
    return folder.rpartition("/")[2] in OUTPUT


def sort_ignored(root: Path, listed: FileListing, has_tracked: Collection[str], max_files: int) -> IgnoredFiles:
    """Choose the ignored files to copy: all but those that a tool can rebuild, within the limits."""
    found = IgnoredFiles()
    files_left, bytes_left = min(MAX_IGNORED_FILES, max_files), MAX_IGNORED_BYTES
    for path in (*listed.others, *listed.folders):
        if may_be_output(path) and path in listed.folders and path not in has_tracked:
            found.rebuildable.append(path)
            continue
        files, size = _list_below(root, path, files_left, found)
        if len(files) > files_left or (size > bytes_left and path in listed.folders):
            found.uncovered.append(path)
        else:
            files_left, bytes_left = files_left - len(files), bytes_left - size
            found.files += files
    return found


def _list_below(root: Path, path: str, max_files: int, found: IgnoredFiles) -> tuple[list[str], int]:
    """The files at or below a path, up to one more than the limit, and their size."""
    files: list[str] = []
    size, waiting = 0, [path]
    while waiting and len(files) <= max_files:
        current = waiting.pop()
        place = root / current
        with contextlib.suppress(OSError):
            status = place.lstat()
            if not stat.S_ISDIR(status.st_mode):
                files.append(current)
                size += status.st_size
            elif os.path.lexists(place / ".git"):
                found.nested.append(current)
            elif place.name in CACHES or is_virtual_environment(place):
                found.rebuildable.append(current)
            else:
                waiting += (f"{current}/{entry.name}" for entry in os.scandir(place))
    return files, size


def folders_among(root: Path, paths: Iterable[str]) -> list[str]:
    """Those of these files that have become folders."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.lstat(root / path).st_mode):
                found.append(path)
    return found


def is_own_file(path: str) -> bool:
    """Whether agentcli itself writes this file into projects; such changes do not belong to the prompt."""
    folder, _slash, name = path.rpartition("/")
    return folder.rpartition("/")[2] == PROJECT_FOLDER and name in PROJECT_FILES


def is_ignore_file(path: str) -> bool:
    return path.rpartition("/")[2] == ".gitignore"


def stamp_of(status: os.stat_result) -> str:
    """A text that changes when the file changes."""
    return f"{status.st_size} {status.st_mtime_ns}"


@frozen
class CopyLimits:
    room: int
    """Remaining bytes of large files that may be copied."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Files without an earlier copy, with their stamps. Unchanged ones are not copied now either, or they would seem to
    have changed."""


@slotted
class IndexChanges:
    add: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    large: dict[str, int] = field(default_factory=dict)
    """The large files in `add`, with their sizes."""
    uncovered: dict[str, str] = field(default_factory=dict)


def sort_files(
    root: Path, new: Sequence[str], changed: Sequence[str], removed: Iterable[str], limits: CopyLimits
) -> IndexChanges:
    """The files to add to and remove from the index.

    A file that is too large or unreadable is removed: no copy is better than a wrong one.
    """
    result = IndexChanges(remove=list(removed))
    tracked = set(changed)
    for path in dict.fromkeys((*new, *changed)):
        try:
            status = os.lstat(root / path)
        except OSError:
            keep = False
        else:
            is_file = stat.S_ISREG(status.st_mode)
            keep = is_file or stat.S_ISLNK(status.st_mode)
            size = status.st_size
            is_large = is_file and size > ALWAYS_COPIED
            stamp = stamp_of(status)
            refused = is_large and (size > min(MAX_COPIED, limits.room) or limits.refused.get(path) == stamp)
            if refused or (is_file and not os.access(root / path, os.R_OK)):
                result.uncovered[path] = stamp
                keep = False
            elif is_large:
                result.large[path] = size
                limits = CopyLimits(limits.room - size, limits.refused)
        if keep:
            result.add.append(path)
        elif path in tracked:
            result.remove.append(path)
    return result


def list_uncovered_changes(
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
    reason = "too large" if max(sizes, default=0) > ALWAYS_COPIED else "unreadable"
    return f"{reason}, no copy kept"
