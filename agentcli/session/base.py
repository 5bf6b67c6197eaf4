"""`Store`: the interface between the engine and the storage of its conversation; paths of session files, and errors of
opening one. Later failures do not raise: the store reports them in `problem`.

<state>/sessions/<project key>/<session id>.jsonl        the log
<state>/sessions/<project key>/<session id>.lock         exists while a process has the log open
<state>/sessions/<project key>/<session id>/tool-results/  output too large for the conversation
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.files.links import real_path
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json

CallState = Literal["asked", "begun"]


class SessionBusy(AgentError):
    """Another process has this session open. The caller refuses it, or forks it."""


class SessionTooNew(AgentError):
    """A newer version wrote this session: it can be read and forked, but not continued."""


class SessionExists(UsageError):
    """The id requested for a new session is taken."""


@frozen
class SessionContext:
    """The folder of sessions, and the values for the fields that every line has."""

    state_dir: Path
    cwd: Path
    clock: Clock
    ids: Ids
    version: str


class Store:
    """Stores a conversation. This base class stores nothing: for `--no-session-persistence`, or without a folder.

    No method raises for an I/O error, so that a failure never stops the work."""

    def __init__(self, session_id: str, problem: str | None = None) -> None:
        """`problem`: why nothing can be stored, reported once; None if the user chose so."""
        self._session_id = session_id
        self._problem = problem
        self._notice = problem

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def path(self) -> Path | None:
        """The session file; None if nothing is stored. It may not exist before the first record."""
        return None

    @property
    def problem(self) -> str | None:
        """Why the conversation cannot be saved at present; None if it can."""
        return self._problem

    def record(self, event: Event) -> None:
        """Store an event if it belongs to the session. Call it before the event is shown.

        A reply whose blocks were recorded ends with `MessageAppended` or `ReplyTombstoned`. It is void if neither
        comes before another reply begins, a message is added or the submission ends.
        """

    def note_call(self, call_id: str, state: CallState) -> None:
        """Store that a call asks the user, or that one begins which may change something."""

    def write_waiting(self) -> None:
        """Store the events of a resumed session that are waiting for its first message."""

    @property
    def title(self) -> str:
        """The session's name; "" if none."""
        return ""

    def set_title(self, title: str) -> None: ...

    def resume_name(self) -> str:
        """The argument for `--resume`: the session's name if it is unique, else its id. Blocking: with a name it reads
        the beginning and the end of every session of the folder."""
        return self.session_id

    def set_system_context(self, text: str, folders: Sequence[str] = (), style: Json | None = None) -> None:
        """Store the system context and the output style, which a resumed session must reuse byte for byte, and the
        context's lines about folders."""

    def set_user_context(self, text: str, sources: Mapping[str, str], boundary: str = "") -> None:
        """Store the user context, valid from this compact boundary on. `sources`: its files with their digests."""

    def note_seen(self, files: Json) -> None:
        """Store new file states seen by the model, by path; None for a forgotten file."""

    def note_front(self, front: Json) -> None:
        """Store digests of the request prefix, for comparison when the session is resumed. Written only if changed."""

    def note_choice(self, choice: Json) -> None:
        """Store the model and its parameters that the user chose after the last request, in the form of a front."""

    def note_server_tools(self, tools: list[Json]) -> None:
        """Store the tools of MCP servers that are part of every request of the session."""

    def results_dir(self) -> Path | None:
        """A private folder for large tool output, created on demand; None if it cannot be written."""
        return None

    def sync(self) -> None:
        """Sync to disk, at the end of a submission. Blocking; takes a fraction of a millisecond on a local disk."""

    def take_notice(self) -> str | None:
        """The next notice for the user about saving, each once; None if there is none."""
        notice, self._notice = self._notice, None
        return notice

    def close(self) -> None: ...


# --------------------------------------------------------------------------------------------------------------- paths

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
