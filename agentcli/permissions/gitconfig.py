"""Whether a repository's own configuration makes git run programs.

A command such as `git status` only reads, unless the repository says otherwise: its configuration can name programs
for git to run. Whoever got a folder from somewhere (an archive, a shared disk) has not seen that file, so in a folder
that nobody has trusted such a repository's git asks (S1, S12). Read as text; git is never run to find out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 256 * 1024
_SECTION = re.compile(r"\[\s*([\w.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\s*\]")
_KEY = re.compile(r"([A-Za-z][\w-]*)\s*(?:=\s*(.*))?")
_PROGRAMS = re.compile(
    r"core\.(fsmonitor|hookspath|sshcommand|askpass|editor|pager|gitproxy|worktree|attributesfile)"
    r"|diff\.external|diff\..*\.(command|textconv)|filter\..*\.(clean|smudge|process)"
    r"|include\.path|includeif\..*|gpg\..*program|gpg\.program|credential\..*helper|credential\.helper"
    r"|interactive\.difffilter|pager\..*|uploadpack\..*"
)
_HARMLESS = {"core.fsmonitor": {"", "true", "false", "yes", "no", "on", "off", "0", "1"}}


def git_folder(folder: Path) -> Path | None:
    """The `.git` that governs a folder: a directory, or what a `.git` file leads to. None outside of repositories."""
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        if dot_git.is_dir():
            return dot_git
        if dot_git.is_file():
            text = _text(dot_git)
            return (place / text.removeprefix("gitdir:").strip()).resolve() if text is not None else dot_git
        if os.path.lexists(dot_git):
            return dot_git
    return None


def runs_programs(folder: Path) -> str | None:
    """The setting by which the repository around a folder makes git run something; None if there is none.

    What cannot be read counts: it might say anything.
    """
    found = git_folder(folder)
    if found is None:
        return None
    common = found
    pointer = _text(found / "commondir")
    if pointer is not None and pointer.strip():
        common = (found / pointer.strip()).resolve()
    for path in dict.fromkeys((common / "config", found / "config.worktree", common / "config.worktree")):
        if not os.path.lexists(path):
            continue
        text = _text(path)
        if text is None:
            return f"{path} cannot be read"
        for key, value in _settings(text):
            if _PROGRAMS.fullmatch(key) and value.strip().strip('"').lower() not in _HARMLESS.get(key, ()):
                return f"its configuration sets {key}"
    return None


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """`section.sub.key` in lower case, and the value, in the order of the file."""
    section = ""
    for raw in text.replace("\\\n", "").splitlines():
        line = raw.strip()
        if match := _SECTION.match(line):
            section = match.group(1).lower() + (f".{match.group(2).lower()}" if match.group(2) is not None else "")
            line = line[match.end() :].strip()
        if line and line[0] not in "#;" and (entry := _KEY.match(line)):
            yield f"{section}.{entry.group(1).lower()}", entry.group(2) or ""


def _text(path: Path) -> str | None:
    """None if it is no plain file of a sane size, or not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = os.read(descriptor, _MOST_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data.decode("utf-8", errors="replace") if len(data) <= _MOST_BYTES else None
