"""Paths of session files, and creation of their folders. Knows paths and modes, not file contents.

<state>/sessions/<project key>/<session id>.jsonl        the log
<state>/sessions/<project key>/<session id>.lock         exists while a process has the log open
<state>/sessions/<project key>/<session id>/tool-results/  output too large for the conversation
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from agentcli.core.files.links import real_path

KEY_LIMIT = 200
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]")
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_session_id(text: str) -> bool:
    """Whether this is a UUID. Ids become file names, so nothing else is accepted."""
    return _SESSION_ID.fullmatch(text) is not None


def project_key(cwd: Path) -> str:
    """The folder name of a project. Different folders may share one, so a session also records its cwd."""
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


def unique_project_key(root: Path) -> str:
    """The folder name of a project that it shares with no other one, for files that another project must not reach."""
    from hashlib import sha256

    real = real_path(root)
    return f"{project_key(root)}-{sha256(os.fsencode(real)).hexdigest()[:8]}"


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
    """Create a folder and its missing parents for this user only, whatever the umask is. Raises `OSError`.

    An existing folder keeps its mode, unless it belongs to this user and others have access: then it is made private.
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
