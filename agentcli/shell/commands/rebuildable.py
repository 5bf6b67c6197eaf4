"""Folders that a tool can rebuild (caches, build output, virtual environments), which auto mode may remove."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from agentcli.core.files.links import is_below
from agentcli.core.files.rebuildable import CACHES, OUTPUT
from agentcli.core.frozen import frozen
from agentcli.shell.git.tracked_files import has_tracked_files


@frozen
class Rebuildable:
    installation: tuple[Path, ...] = ()
    """The files that run agentcli, resolved."""
    search_path: str | None = None
    working_dirs: tuple[Path, ...] = ()

    def covers(self, path: str, cwd: Path) -> bool:
        """Whether a path is such a folder below `cwd`, or inside one."""
        start = os.path.normpath(cwd)
        place = os.path.normpath(os.path.join(start, path))  # noqa: PTH118
        if place == start or not is_below(place, (start,)):
            return False
        folders = []
        while place != start:
            folders.append(Path(place))
            place = os.path.dirname(place)  # noqa: PTH120
        # A link among them could lead anywhere.
        return not any(map(Path.is_symlink, folders)) and any(map(self._can_be_rebuilt, folders))

    def _can_be_rebuilt(self, folder: Path) -> bool:
        is_environment = (folder / "pyvenv.cfg").is_file()
        if not (is_environment or folder.name in CACHES or folder.name in OUTPUT) or not folder.is_dir():
            return False
        real = os.path.realpath(folder)
        if any(is_below(str(part), (real,)) or is_below(real, (str(part),)) for part in self.installation):
            return False
        if (folder / ".git").exists():
            return False
        tracked = has_tracked_files(folder, self.search_path, self.working_dirs)
        return tracked is False or (tracked == "no repository" and folder.name not in OUTPUT)


def finds_only_caches(words: Sequence[str]) -> bool:
    names = [name for test, name in pairwise(words) if test == "-name"]
    plain = not any(word in ("-o", "-or", "!", "-not", ",", "\\!") for word in words)
    return plain and bool(names) and all(name in CACHES or name in ("*.pyc", "*.pyo") for name in names)
