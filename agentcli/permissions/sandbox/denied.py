"""The files that deny rules keep from being read, found on disk so that a sandbox can cover them (S7).

A rule is a pattern, a mount needs a path. The walk is bounded in entries and kept for some seconds, since it is asked
for at every launch; a denied file that appears in between is covered from the next look on.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

MOST_ENTRIES = 200_000
MOST_FOUND = 400
KEPT_SECONDS = 5.0
_SKIPPED = frozenset({".git"})
"""Holds no files by their names, and a great many entries."""
_WILD = re.compile(r"[*?\[{]")
_LEAST_DEPTH = 3
"""A rule such as ~/**/.env names no folder that could be searched in time; text analysis has to do there."""


class DeniedFiles:
    """Callable: the denied files that are there now."""

    def __init__(
        self,
        hides: Callable[[str], bool],
        specs: Iterable[str],
        folders: Sequence[Path],
        home: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`specs`: what stands between the parentheses of the rules; `hides` has the last word."""
        specs = tuple(specs)
        self._hides = hides
        self._candidates = re.compile("|".join(map(_name_pattern, specs)) or r"(?!)", re.IGNORECASE)
        self._single, further = _elsewhere(specs, home)
        self._folders = (*folders, *further)
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
        found = [path for path in self._single if path.exists() and self._hides(str(path))]
        waiting = [str(folder) for folder in self._folders]
        looked_at = 0
        self.complete = True
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            looked_at += len(entries)
            for entry in entries:
                # By its name first: asking the rules costs fifty times as much.
                if self._candidates.fullmatch(entry.name) and self._hides(entry.path):
                    found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                    waiting.append(entry.path)
            if looked_at > MOST_ENTRIES or len(found) >= MOST_FOUND:
                self.complete = False
                break
        return tuple(found[:MOST_FOUND])


def _name_pattern(spec: str) -> str:
    """Whatever a spec denies has, itself or in a folder above it, a name that matches this."""
    named = [part for part in spec.split("/") if part not in ("", ".", "..", "~") and part.strip("*")]
    if not named:
        return r".*"
    # A brace or a bracket means different things to different matchers: too many candidates are fine.
    return fnmatch.translate(re.sub(r"[\[{].*", "*", named[-1]))


def _elsewhere(specs: Iterable[str], home: Path | None) -> tuple[list[Path], list[Path]]:
    """Paths, and folders to search, that rules name outside of the working directories."""
    paths: list[Path] = []
    folders: list[Path] = []
    for spec in specs:
        if spec.startswith("//"):
            path = Path("/" + spec.lstrip("/"))
        elif spec.startswith("~/") and home is not None:
            path = home / spec[2:]
        else:
            continue
        literal = next((parent for parent in (path, *path.parents) if not _WILD.search(str(parent))), None)
        if literal == path:
            paths.append(path)
        elif literal is not None and len(literal.parts) >= _LEAST_DEPTH and literal != home:
            folders.append(literal)
    return paths, folders
