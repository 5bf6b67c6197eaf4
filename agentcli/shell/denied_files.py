"""Find the existing files that deny rules match, so that a sandbox can cover them.

A rule is a pattern, but a mount needs a path. The search is bounded in entries. Its result is cached for some seconds,
because every launch needs it: a denied file that appears in between is covered from the next search on.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern

MOST_ENTRIES = 200_000
"""Entries of folders that one search looks at."""
MOST_FOUND = 400
KEPT_SECONDS = 5.0
_MOST_KEPT = 64
"""Cached searches of `RestrictedFiles`."""
_SKIPPED = frozenset({".git"})
"""Folders with very many entries, searched only if a rule names them."""
_WILD = lazy_pattern(r"[*?\[{]")
_LEAST_DEPTH = 3
"""Path components that the literal beginning of a rule needs to be searched. That of `~/**/.env` is too large a folder;
only the analysis of a command's text covers such rules."""


@frozen
class DeniedMatches:
    paths: tuple[Path, ...]
    complete: bool = True
    """False if there are more files or matches than the limits allow."""


class DeniedFiles:
    """The denied files of a session that currently exist; call it to get them."""

    def __init__(
        self,
        hides: Callable[[str], bool],
        specs: Iterable[str],
        folders: Sequence[Path],
        home: Path | None = None,
        now: Callable[[], float] = time.monotonic,
        single: Iterable[Path] = (),
    ) -> None:
        """`specs`: the patterns in the rules' parentheses, to find candidates; `hides` decides about a path. `single`:
        further files, anywhere."""
        self._hides = hides
        self._specs = tuple(specs)
        paths, further = _outside_places(self._specs, home)
        self._single = (*paths, *single)
        self._folders = (*folders, *further)
        self._now = now
        self._found = DeniedMatches(())
        self._until = float("-inf")

    @property
    def complete(self) -> bool:
        """Whether the limits allowed finding all denied files; may be some seconds old."""
        self()
        return self._found.complete

    def __call__(self) -> tuple[Path, ...]:
        if self._now() >= self._until:
            self._found = self._search()
            self._until = self._now() + KEPT_SECONDS
        return self._found.paths

    def _search(self) -> DeniedMatches:
        single = [path for path in self._single if path.exists() and self._hides(str(path))]
        below = find_denied([str(folder) for folder in self._folders], self._specs, self._hides)
        found = (*single, *below.paths)
        return DeniedMatches(found[:MOST_FOUND], below.complete and len(found) <= MOST_FOUND)


class RestrictedFiles:
    """The denied files below any folder, for decisions about commands that search it. Cached for some seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[tuple[str, tuple[str, ...], tuple[str, ...]], tuple[float, DeniedMatches]] = {}

    def below(
        self, folder: str, specs: tuple[str, ...], hides: Callable[[str], bool], scope: tuple[str, ...] = ()
    ) -> DeniedMatches:
        """`scope`: what else `hides` depends on, such as the folder that relative rules start from."""
        until, found = self._kept.get((folder, specs, scope), (float("-inf"), None))
        if found is None or self._now() >= until:
            found = find_denied([folder], specs, hides)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[folder, specs, scope] = (self._now() + KEPT_SECONDS, found)
        return found


def find_denied(folders: list[str], specs: tuple[str, ...], hides: Callable[[str], bool]) -> DeniedMatches:
    """Search folders for paths that `specs` may match and `hides` confirms. Links are not followed, as recursive search
    programs do not follow them."""
    candidates = _name_pattern(specs)
    skipped = frozenset() if any(".git" in spec.split("/") for spec in specs) else _SKIPPED
    waiting, found, entry_count = list(folders), [], 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        entry_count += len(entries)
        for entry in entries:
            # The name first: asking the rules costs fifty times as much.
            if candidates.fullmatch(entry.name) and hides(entry.path):
                found.append(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False) and entry.name not in skipped:
                waiting.append(entry.path)
        if entry_count > MOST_ENTRIES or len(found) >= MOST_FOUND:
            return DeniedMatches(tuple(found[:MOST_FOUND]), complete=False)
    return DeniedMatches(tuple(found))


@functools.lru_cache(maxsize=64)
def _name_pattern(specs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(name_glob(spec)) for spec in specs) or r"(?!)", re.IGNORECASE)


def name_glob(spec: str) -> str:
    """A glob for names: every path that the spec matches has it, or a folder above it, matching the glob."""
    named = [part for part in spec.split("/") if part not in ("", ".", "..", "~") and part.strip("*")]
    # Matchers disagree about braces and brackets; too many candidates do no harm.
    return re.sub(r"[\[{].*", "*", named[-1]) if named else "*"


def _outside_places(specs: Iterable[str], home: Path | None) -> tuple[list[Path], list[Path]]:
    """Paths, and folders to search, that absolute and home-relative rules name."""
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
