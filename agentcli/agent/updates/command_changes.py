"""Finds file changes made while a shell command of the model ran, and whether the command names the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agentcli.tools.files.read_cache import CommandRun

_COARSE_NANOSECONDS = 20_000_000
"""File time stamps use the kernel's last tick, which may be before the command's start."""


def runs_during(path: str, changed_at: int | None, runs: Sequence[CommandRun]) -> list[CommandRun]:
    """The commands that ran when a file changed. `changed_at`: ns since the epoch; None: gone, see its folder."""
    at = changed_at if changed_at is not None else _folder_changed_at(path)
    return [run for run in runs if run.began - _COARSE_NANOSECONDS <= at <= run.ended]


def names_file(command: str, path: str) -> bool:
    return _has_word(command, path.rpartition("/")[2])


def names_file_or_folder(command: str, path: str, root: str) -> bool:
    """Whether a command names a file or a folder that it is in. The root and the folders above it do not count."""
    inner = path.removeprefix(root.rstrip("/") + "/") if path.startswith(root.rstrip("/") + "/") else path
    return any(_has_word(command, part) for part in inner.split("/") if part)


def _has_word(command: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", command) is not None


def _folder_changed_at(path: str) -> int:
    """Change time of the nearest existing parent folder; 0 if there is none."""
    folder = path.rpartition("/")[0]
    while folder:
        try:
            return Path(folder).stat().st_mtime_ns
        except (OSError, ValueError):
            folder = folder.rpartition("/")[0]
    return 0
