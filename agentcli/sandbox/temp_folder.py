"""The session's temp folder under its two names, inside and outside the sandbox.

Sandboxed commands see it as `/tmp` and `$TMPDIR`; outside it is a private folder. `outside` and `inside` translate
between the two, so that file tools and commands use the same name, such as `/tmp/x`. Files in the machine's own `/tmp`
keep their names and protection.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agentcli.core.text.lazy_pattern import lazy_pattern

SYSTEM_TEMP = "/tmp"  # noqa: S108 - its name, which commands use
_MAX_NEIGHBOURS = 20
_PRIVATE = lazy_pattern(
    r"(?:agentcli-|ssh-|tmux-|systemd-private|snap-private|gpg-|\.X|\.ICE|\.font|\.Test|dbus-|pulse-)"
)
"""Folders of agents, sockets and other sessions, which commands must not see."""


def outside(path: str, own: Path, visible: Iterable[Path]) -> str:
    """Map a path as a command names it to the path outside the sandbox.

    `visible`: folders in the system's temp folder that commands see under their real path.
    """
    relative = _below(path, SYSTEM_TEMP)
    if relative is None or _below(path, str(own)) is not None:
        return path
    if any(_below(path, str(folder)) is not None for folder in visible):
        return path
    moved = str(own / relative) if relative else str(own)
    return path if os.path.lexists(path) and not os.path.lexists(moved) else moved


def inside(path: str, own: Path) -> str:
    """The path of a temp file as commands and the user know it."""
    relative = _below(path, str(own))
    return path if relative is None else f"{SYSTEM_TEMP}/{relative}".rstrip("/")


def neighbours(working_dirs: Iterable[Path], text: str) -> list[Path]:
    """Entries of the system's temp folder that a command of a project below it can read: the one that contains the
    project, and those that `text` (a command or a path) names.

    Only those that belong to this user, and no sockets. Not all of them: a mount for each would double the time that a
    sandbox takes to start.
    """
    own = {relative.split("/")[0] for folder in working_dirs if (relative := _below(str(folder), SYSTEM_TEMP))}
    if not own:
        return []
    try:
        entries = [entry for entry in os.scandir(SYSTEM_TEMP) if entry.name in own or f"/{entry.name}" in text]
    except OSError:
        return []
    return sorted(Path(entry.path) for entry in entries if _is_shown(entry))[:_MAX_NEIGHBOURS]


def _is_shown(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    kind_fits = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return kind_fits and status.st_uid == os.geteuid() and not _PRIVATE.match(entry.name)


def _below(path: str, folder: str) -> str | None:
    """The path relative to the folder; empty for the folder itself, None elsewhere."""
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None
