"""Find the programs that agentcli itself starts, outside any sandbox. `own_programs` starts them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentcli.core.files.real_path import real_path


def find_program(name: str, search_path: str | None, working_dirs: Iterable[Path]) -> str | None:
    """Find a program on a PATH (None: the system's), but never in a working directory.

    Otherwise a sandboxed command could put a program into `.venv/bin` and have agentcli run it outside the sandbox.
    Relative entries depend on the current folder, so they are skipped too.
    """
    writable = _resolved(working_dirs)
    for entry in _absolute_entries(search_path):
        found = os.path.join(entry, name)  # noqa: PTH118
        # Most entries have no such program; links are resolved only for those that have.
        if not _can_run(found) or os.path.isdir(found):  # noqa: PTH112 - before every command
            continue
        # A link from outside into a project is like a program in it.
        if not _lies_in(entry, writable) and not _lies_in(found, writable):
            return found
    return None


def clean_search_path(search_path: str | None, working_dirs: Iterable[Path]) -> str:
    """A PATH without the entries that `find_program` skips; the system's if none is left."""
    writable = _resolved(working_dirs)
    safe = (entry for entry in _absolute_entries(search_path) if not _lies_in(entry, writable))
    return os.pathsep.join(safe) or os.defpath


def folders_named(names: Iterable[str], cwd: Path, home: Path | None) -> tuple[Path, ...]:
    """Folders named in settings: absolute, relative to `cwd`, or below `~/`."""
    at_home = (home / name[2:] if home is not None and name.startswith("~/") else Path(name) for name in names)
    return tuple(Path(os.path.normpath(cwd / path)) for path in at_home)


def lies_in(path: str, working_dirs: Iterable[Path]) -> bool:
    """Whether a path leads into one of the folders."""
    return _lies_in(path, _resolved(working_dirs))


def _can_run(path: str) -> bool:
    try:
        return os.access(path, os.X_OK)
    except ValueError:  # a null character or a lone surrogate, which no path contains
        return False


def _resolved(folders: Iterable[Path]) -> list[str]:
    return [real_path(folder) for folder in folders]


def _absolute_entries(search_path: str | None) -> Iterator[str]:
    entries = (os.defpath if search_path is None else search_path).split(os.pathsep)
    return (entry for entry in entries if entry.startswith("/"))


def _lies_in(path: str, folders: list[str]) -> bool:
    real = real_path(path)
    return any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in folders)
