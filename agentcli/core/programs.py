"""Find the programs that agentcli itself starts, outside of any sandbox. `own_programs` starts them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path


def find_program(name: str, search_path: str | None, working_dirs: Iterable[Path]) -> str | None:
    """A program on a PATH (None: the system's own), but never one that lies in a working directory.

    Whoever may write there could otherwise choose what we run: a sandboxed command puts a program into `.venv/bin`,
    and it is out of its sandbox with our next search. An entry that is not absolute means a place that changes with
    the folder we are in, so it is left out too.
    """
    writable = _resolved(working_dirs)
    for entry in _safe_entries(search_path, writable):
        found = shutil.which(name, path=entry)
        # A link from outside back into a project is as good as a program in it.
        if found is not None and not _lies_in(found, writable):
            return found
    return None


def clean_search_path(search_path: str | None, working_dirs: Iterable[Path]) -> str:
    """A PATH without the entries that `find_program` leaves out; the system's own if none is left."""
    return os.pathsep.join(_safe_entries(search_path, _resolved(working_dirs))) or os.defpath


def folders_named(names: Iterable[str], cwd: Path, home: Path | None) -> tuple[Path, ...]:
    """Folders as settings name them: absolute, relative to `cwd`, or below `~/`."""
    at_home = (home / name[2:] if home is not None and name.startswith("~/") else Path(name) for name in names)
    return tuple(Path(os.path.normpath(cwd / path)) for path in at_home)


def lies_in(path: str, working_dirs: Iterable[Path]) -> bool:
    """Whether a path leads into one of the folders."""
    return _lies_in(path, _resolved(working_dirs))


def _resolved(folders: Iterable[Path]) -> list[Path]:
    return [Path(os.path.realpath(folder)) for folder in folders]


def _safe_entries(search_path: str | None, writable: list[Path]) -> Iterator[str]:
    entries = (os.defpath if search_path is None else search_path).split(os.pathsep)
    return (entry for entry in entries if entry.startswith("/") and not _lies_in(entry, writable))


def _lies_in(path: str, folders: list[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)
