"""Where the programs lie that we start ourselves, outside of any sandbox. Looks only; nothing is started here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def find_program(name: str, search_path: str | None, working_dirs: Iterable[Path]) -> str | None:
    """A program on a PATH (None: the system's own), but never one that lies in a working directory.

    Whoever may write there could otherwise choose what we run: a sandboxed command puts a program into `.venv/bin`,
    and it is out of its sandbox with our next search. An entry that is not absolute means a place that changes with
    the folder we are in, so it is left out too.
    """
    writable = [Path(os.path.realpath(folder)) for folder in working_dirs]
    for entry in (os.defpath if search_path is None else search_path).split(os.pathsep):
        if not entry.startswith("/") or _lies_in(entry, writable):
            continue
        found = shutil.which(name, path=entry)
        # A link from outside back into a project is as good as a program in it.
        if found is not None and not _lies_in(found, writable):
            return found
    return None


def _lies_in(path: str, folders: list[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)
