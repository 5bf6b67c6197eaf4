"""Files that rules restrict, as they lie in folders, and as git tracks them."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.files.access import read_start
from agentcli.core.frozen import frozen
from agentcli.core.git.run import git_settings, run_git
from agentcli.core.processes.own_programs import find_program
from agentcli.core.text.patterns import lazy_pattern

MAX_ENTRIES = 200_000
"""Entries of folders that one search looks at."""
MAX_FOUND = 400
KEPT_SECONDS = 5.0
_MAX_KEPT = 64
"""Cached searches of `RestrictedFiles`."""
_SKIPPED = frozenset({".git"})
"""Folders with very many entries, searched only if a rule names them."""
_WILD = lazy_pattern(r"[*?\[{]")
_MIN_DEPTH = 3
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
        return DeniedMatches(found[:MAX_FOUND], below.complete and len(found) <= MAX_FOUND)


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
            if len(self._kept) >= _MAX_KEPT:
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
        if entry_count > MAX_ENTRIES or len(found) >= MAX_FOUND:
            return DeniedMatches(tuple(found[:MAX_FOUND]), complete=False)
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
        elif literal is not None and len(literal.parts) >= _MIN_DEPTH and literal != home:
            folders.append(literal)
    return paths, folders


_SECONDS = 1.0
"""Timeout of one lookup, during which the program waits. Most take a few milliseconds."""
_MAX_NAMES = 200
_MAX_REFS = 2_000
_MAX_KEPT_STATES = 16
_HISTORY = ("log", "--all", "--reflog", "--full-history", "-m", "--no-renames", "--no-ext-diff", "--no-textconv",
            "--no-show-signature", "--format=", "--name-only", "-z")  # fmt: skip


class TrackedFiles:
    """Cached lookups of tracked files, valid while the repository's index and references are unchanged."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[str, ...] | None] = {}

    def matching(
        self,
        folder: str,
        specs: tuple[str, ...],
        hides: Callable[[str], bool],
        working_dirs: tuple[str, ...],
        search_path: str | None,
    ) -> tuple[str, ...] | None:
        """Absolute paths of tracked files, past and present, for which `hides` is true; None if unknown."""
        top = _repository(folder)
        if top is None:
            return ()
        state = _state(top)
        key = (top, specs, working_dirs, state)
        if state is not None and key in self._kept:
            return self._kept[key]
        git = find_program("git", search_path, map(Path, working_dirs))
        found = None if git is None else _find_matching(git, (top, *working_dirs), folder, specs, hides)
        if state is not None:
            if len(self._kept) >= _MAX_KEPT_STATES:
                self._kept.clear()
            self._kept[key] = found
        return found


def _find_matching(
    git: str, bases: Iterable[str], folder: str, specs: tuple[str, ...], hides: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """Look up matching files. `bases`: the work tree may be elsewhere than around its .git."""
    found: dict[str, None] = {}
    pathspecs = list(_pathspecs(specs))
    deadline = time.monotonic() + _SECONDS
    for command in (("ls-files", "-z", "--full-name"), _HISTORY):
        listed = run_neutral_git(git, (*command, "--", *pathspecs), folder, deadline - time.monotonic())
        if listed is None:
            return None
        # The history has a line break between two commits.
        names = list(dict.fromkeys(name.strip("\n") for name in listed if name.strip("\n")))
        for base in dict.fromkeys(bases):
            paths = (f"{base.rstrip('/')}/{name}" for name in names)
            found.update((path, None) for path in paths if path not in found and hides(path))
    return tuple(found)[:_MAX_NAMES]


def has_tracked_files(
    folder: Path, search_path: str | None, working_dirs: Iterable[Path]
) -> bool | Literal["no repository", "unknown"]:
    """Whether git's index has files in a folder."""
    if _repository(str(folder.parent)) is None:
        return "no repository"
    git = find_program("git", search_path, working_dirs)
    command = ("ls-files", "-z", "--", f":(literal,icase){folder.name}")
    names = None if git is None else run_neutral_git(git, command, str(folder.parent), _SECONDS)
    return "unknown" if names is None else bool(names)


def run_neutral_git(git: str, arguments: Sequence[str], folder: str, seconds: float) -> list[str] | None:
    """Run git without obeying the repository; return the NUL-separated names it prints, or None if it fails."""
    try:
        # Only a comparison with the work tree runs filters.
        settings = git_settings(git, folder) if arguments[0] == "diff" else ()
        done = run_git(git, arguments, folder, max(seconds, 0.0), settings=settings)
    except (OSError, ValueError):
        return None
    return [os.fsdecode(name) for name in done.output.split(b"\0") if name] if done.code == 0 else None


def _pathspecs(specs: tuple[str, ...]) -> Iterator[str]:
    for name in dict.fromkeys(map(name_glob, specs)):
        loose = re.sub(r"[\\\[\]]", "?", name)
        yield f":(top,icase,glob)**/{loose}"
        yield f":(top,icase,glob)**/{loose}/**"


def _repository(folder: str) -> str | None:
    """The nearest folder with a `.git`, from this one upwards; None if there is none."""
    path = Path(os.path.realpath(folder))
    return next((str(place) for place in (path, *path.parents) if os.path.lexists(place / ".git")), None)


def _state(top: str) -> tuple[object, ...] | None:
    """A value that changes with the index and every reference; None if collecting it takes too long."""
    git = Path(top, ".git")
    folders = [git]
    if git.is_file():
        # A linked worktree: its own references and the shared ones.
        try:
            pointer = read_start(git)
            own = (git.parent / pointer.removeprefix("gitdir:").strip()).resolve()
            folders = [own, own.parent.parent]
        except (OSError, ValueError):
            return None
    seen: list[object] = []
    for place in folders:
        seen += (_stamp(place / name) for name in ("index", "HEAD", "packed-refs", "logs/HEAD", "logs/refs/stash"))
        waiting = [str(place / "refs")]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                seen.append((entry.path, _stamp(Path(entry.path))))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
            if len(seen) > _MAX_REFS:
                return None
    return tuple(seen)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
