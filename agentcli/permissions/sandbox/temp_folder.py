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
_MOST_SIBLINGS = 200
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


def siblings(working_dirs: Iterable[Path]) -> list[Path]:
    """Entries beside working directories that are in the system's temp folder: commands there expect to read them.

    Only those that belong to this user, and no sockets.
    """
    if not any(_below(str(folder), SYSTEM_TEMP) for folder in working_dirs):
        return []
    found: list[Path] = []
    try:
        entries = list(os.scandir(SYSTEM_TEMP))
    except OSError:
        return []
    user = os.geteuid()
    for entry in sorted(entries, key=lambda entry: entry.name):
        if _PRIVATE.match(entry.name) or len(found) >= _MOST_SIBLINGS:
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if status.st_uid == user and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            found.append(Path(entry.path))
    return found


def _below(path: str, folder: str) -> str | None:
    """The path relative to the folder; empty for the folder itself, None elsewhere."""
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None
