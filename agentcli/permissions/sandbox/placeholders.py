"""Empty folders that hold the place of what a sandboxed command must not create, for as long as one runs.

A mount needs something to be mounted on, so a protected path that is not there has to be there for a while. A folder
where that will do: git and most programs do not see empty folders, and `rmdir` can only ever remove an empty one, so
nothing that somebody wrote meanwhile is lost. Where git would stumble over a folder it is a file, which is removed only
while it holds what was put into it.

A placeholder that is removed takes the mounts on it along, also in the sandbox of another session in the same folder.
So every session holds a shared lock while its commands run, and only who gets it alone removes anything; what was made
is written into the lock file first, so that the next session cleans up after one that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from agentcli.core.bounded_read import read_bounded

LOCKS = "placeholders"
_MOST_BYTES = 1_000_000


class Placeholders:
    """Shared by all launches of a session. Safe to use from several threads."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: private to the person, the same for all their sessions; None: placeholders are left behind, since
        nobody knows who else uses them."""
        self._folder = folder
        self._places: dict[Path, _Place] = {}
        self._guard = threading.Lock()

    def hold(self, parents: Iterable[Path]) -> Hold:
        """From now on no placeholder in these folders is removed; to be called before looking at what is there."""
        with self._guard:
            places = {parent: self._place(parent) for parent in dict.fromkeys(parents)}
            for place in places.values():
                place.users += 1
        return Hold(self, places)

    def holds(self, path: Path) -> bool:
        """Whether there is nothing at this path but an empty folder that a running command needs there."""
        with self._guard:
            place = self._places.get(path.parent)
            return place is not None and str(path) in place.noted() and _is_empty(path)

    def clean(self, parents: Iterable[Path]) -> None:
        """Remove what is left of sessions that were killed; nothing that another one needs."""
        for parent in dict.fromkeys(parents):
            if self._folder is not None and _lock_file(self._folder, parent).exists():
                self.hold([parent]).release()

    def _place(self, parent: Path) -> _Place:
        place = self._places.get(parent)
        if place is None:
            place = self._places[parent] = _Place(_lock(self._folder, parent))
            place.clean_if_alone()
            place.share()
        return place

    def release(self, parents: Iterable[Path]) -> None:
        """For `Hold`."""
        with self._guard:
            for parent in parents:
                place = self._places[parent]
                place.users -= 1
                if place.users == 0:
                    del self._places[parent]
                    place.clean_if_alone()
                    place.close()


class Hold:
    """One launch's share in the placeholders."""

    def __init__(self, owner: Placeholders, places: dict[Path, _Place]) -> None:
        self._owner = owner
        self._places = places

    def make(self, paths: Iterable[Path]) -> tuple[Path, ...]:
        """Those of the paths that are there as folders now. Paths elsewhere than in the folders held are left out."""
        return tuple(path for path in paths if (place := self._place(path)) is not None and place.make(path))

    def make_files(self, files: Iterable[tuple[Path, str]]) -> tuple[Path, ...]:
        """The same with files that hold this text."""
        return tuple(
            path for path, text in files if (place := self._place(path)) is not None and place.make_file(path, text)
        )

    def expect(self, paths: Iterable[Path]) -> None:
        """They are not there, and are to be removed if they are later: also by the next session, if this is killed."""
        for path in paths:
            if (place := self._place(path)) is not None:
                place.note([str(path), None])

    def _place(self, path: Path) -> _Place | None:
        return next((self._places[parent] for parent in path.parents if parent in self._places), None)

    def release(self) -> None:
        """Once the command has ended; a second call does nothing."""
        places, self._places = self._places, {}
        self._owner.release(places)


class _Place:
    """The placeholders in one folder, with the lock file that names them (-1: there is none)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.users = 0

    def share(self) -> None:
        if self._descriptor >= 0:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def make(self, path: Path) -> bool:
        try:
            path.mkdir(0o755)
        except FileExistsError:
            return path.is_dir() and not path.is_symlink()
        except OSError:
            return False
        self.note(str(path))
        return True

    def make_file(self, path: Path, text: str) -> bool:
        try:
            if text:
                _write_at_once(path, text)
            else:
                _write_new(path, text)
        except FileExistsError:
            return path.is_file() and not path.is_symlink()
        except OSError:
            return False
        self.note([str(path), text])
        return True

    def note(self, entry: object) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps(entry).encode() + b"\n")

    def clean_if_alone(self) -> None:
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError, ValueError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for line in os.pread(self._descriptor, _MOST_BYTES, 0).splitlines():
                with contextlib.suppress(OSError, ValueError, TypeError):
                    _remove(json.loads(line))
            os.ftruncate(self._descriptor, 0)

    def noted(self) -> list[object]:
        """What was made, by this session or another; empty where there is no lock file."""
        found: list[object] = []
        if self._descriptor >= 0:
            for line in os.pread(self._descriptor, _MOST_BYTES, 0).splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _is_empty(path: Path) -> bool:
    try:
        return not path.is_symlink() and not any(path.iterdir())
    except OSError:
        return False


def _lock_file(folder: Path, parent: Path) -> Path:
    name = hashlib.sha256(os.fsencode(parent)).hexdigest()[:24]
    return folder / LOCKS / f"{name}.lock"


def _lock(folder: Path | None, parent: Path) -> int:
    if folder is None:
        return -1
    try:
        (folder / LOCKS).mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(_lock_file(folder, parent), flags, 0o600)
    except OSError:
        return -1


def _write_at_once(path: Path, text: str) -> None:
    """A git that runs outside would stumble over it half written."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        _write_new(draft, text)
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # not every file system has hard links
            _write_new(path, text)
    finally:
        draft.unlink(missing_ok=True)


def _write_new(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _remove(entry: object) -> None:
    match entry:
        case str():
            Path(entry).rmdir()
        case [str() as name, None]:
            Path(name).unlink()
        case [str() as name, str() as text]:
            path = Path(name)
            if not path.is_symlink() and read_bounded(path, len(data := text.encode())) == data:
                path.unlink()
