"""The files that deny rules keep from being read, found on disk so that a sandbox can cover them (S7).

A rule is a pattern, a mount needs a path. The walk is bounded in entries and kept for some seconds, since it is asked
for at every launch; a denied file that appears in between is covered from the next look on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

MOST_ENTRIES = 200_000
MOST_FOUND = 400
KEPT_SECONDS = 5.0
_SKIPPED = frozenset({".git"})
"""Holds no files by their names, and a great many entries."""


class DeniedFiles:
    def __init__(
        self,
        hides: Callable[[str], bool],
        folders: Sequence[Path],
        extra: Iterable[Path] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`extra`: further paths to ask about, such as well-known ones outside of the folders."""
        self._hides = hides
        self._folders = tuple(folders)
        self._extra = tuple(extra)
        self._now = now
        self._found: tuple[Path, ...] = ()
        self._until = float("-inf")
        self.complete = True
        """False: there are more files than were looked at, or more denied ones than can be covered."""

    def __call__(self) -> tuple[Path, ...]:
        if self._now() >= self._until:
            self._found = self._search()
            self._until = self._now() + KEPT_SECONDS
        return self._found

    def _search(self) -> tuple[Path, ...]:
        found = [path for path in self._extra if path.exists() and self._hides(str(path))]
        waiting = [str(folder) for folder in self._folders]
        looked_at = 0
        self.complete = True
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                looked_at += 1
                if looked_at > MOST_ENTRIES or len(found) >= MOST_FOUND:
                    self.complete = False
                    return tuple(found)
                if self._hides(entry.path):
                    found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                    waiting.append(entry.path)
        return tuple(found)
