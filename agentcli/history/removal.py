"""Delete sessions with everything that belongs to them: tool output, sub-agents' transcripts, undo journal, snapshots.

All of it is blocking.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from agentcli.core.errors import AgentError
from agentcli.session.base import sessions_dir
from agentcli.session.closed_sessions import delete_session
from agentcli.session.find import SessionInfo, list_sessions, read_headers
from agentcli.workspace.base import SnapshotLocation
from agentcli.workspace.folders import forget, is_due

DAY_SECONDS = 86_400


class SessionRemover:
    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._agents: dict[str, list[Path]] = {}
        """Transcripts of sub-agents by the id of the session that started them."""
        self._copies: dict[str, set[str]] = {}
        """Sessions by the id of the one from which they were forked."""
        for path, header in read_headers(state_dir):
            self._agents.setdefault(str(header.get("parentSession") or ""), []).append(path)
            self._copies.setdefault(str(header.get("forkedFrom") or ""), set()).add(path.stem)

    def remove(self, path: Path) -> int:
        """Delete a session; returns the bytes freed. The tool output and the snapshots that a copy of it needs stay.
        Raises `SessionBusy` and `OSError`."""
        is_needed = bool(self._copies.get(path.stem))
        freed = delete_session(path, keep_results=is_needed)
        if not is_needed:
            freed += forget(SnapshotLocation(self._state_dir, path.stem).folder, path.stem)
        for copies in self._copies.values():
            copies.discard(path.stem)
        return freed + sum(map(self.remove, self._agents.pop(path.stem, ())))


def list_old(state_dir: Path, cwd: Path | None, days: int) -> list[SessionInfo]:
    """The sessions of a project, or of all, that were not written for so many days and have no name."""
    before = time.time() - days * DAY_SECONDS
    return [one for one in list_sessions(state_dir, cwd) if one.modified < before and not one.is_named]


def apply_retention(state_dir: Path, days: int) -> tuple[int, int]:
    """Delete the sessions without a name that are older than this, at most once a day; returns their number and the
    bytes freed. Raises `OSError`."""
    count, freed = 0, 0
    if not is_due(sessions_dir(state_dir) / "pruned", time.time()):
        return 0, 0
    remover = SessionRemover(state_dir)
    for session in list_old(state_dir, None, days):
        with suppress(AgentError, OSError):  # in use, or not ours
            freed += remover.remove(session.path)
            count += 1
    return count, freed
