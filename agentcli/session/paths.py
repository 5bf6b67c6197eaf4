"""Where sessions live on disk, and how their folders are made. Knows paths and modes, never what is in a file.

<state>/sessions/<project key>/<session id>.jsonl        the log
<state>/sessions/<project key>/<session id>.lock         there while a process writes the log
<state>/sessions/<project key>/<session id>/tool-results/  output too large for the conversation
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from agentcli.core.real_path import real_path

KEY_LIMIT = 200
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]")
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_session_id(text: str) -> bool:
    """Whether this is a UUID. Ids become file names, so nothing else is ever let through."""
    return _SESSION_ID.fullmatch(text) is not None


def project_key(cwd: Path) -> str:
    """The folder name of a project; different folders may share one, so a session also says its cwd itself."""
    real = real_path(cwd)
    if not real.isascii():
        from unicodedata import normalize

        real = normalize("NFC", real)
    key = _NOT_PLAIN.sub("-", real)
    if len(key) <= KEY_LIMIT:
        return key
    from hashlib import sha256

    digest = sha256(real.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{key[:KEY_LIMIT]}-{digest[:8]}"


def sessions_dir(state_dir: Path) -> Path:
    return state_dir / "sessions"


def project_dir(state_dir: Path, cwd: Path) -> Path:
    return sessions_dir(state_dir) / project_key(cwd)


def session_path(state_dir: Path, cwd: Path, session_id: str) -> Path:
    return project_dir(state_dir, cwd) / f"{session_id}.jsonl"


def results_path(session: Path) -> Path:
    """The folder for large tool output of the session with this file."""
    return session.with_suffix("") / "tool-results"


def make_private_dir(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user only, whatever the umask is. Raises OSError.

    A folder that was there keeps its mode unless it is ours and others could look into it: then it is closed.
    """
    if not folder.parent.exists():
        make_private_dir(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077 == 0:
            return
    with suppress(PermissionError):
        folder.chmod(0o700)
