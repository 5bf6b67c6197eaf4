"""A store that keeps nothing: `--no-session-persistence`, or no folder to write to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.events import Event
from agentcli.core.messages import Json


class NullStore:
    """Stores nothing. `problem`, if given, is reported once: the user did not choose this."""

    def __init__(self, session_id: str, problem: str | None = None) -> None:
        self._session_id = session_id
        self._problem = problem
        self._notice = problem

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def path(self) -> Path | None:
        return None

    @property
    def problem(self) -> str | None:
        return self._problem

    def record(self, event: Event) -> None:
        pass

    def set_title(self, title: str) -> None:
        pass

    def set_system_context(self, text: str, folders: Sequence[str] = ()) -> None:
        pass

    def set_user_context(self, text: str, sources: Mapping[str, str], boundary: str = "") -> None:
        pass

    def note_seen(self, files: Json) -> None:
        pass

    def note_front(self, front: Json) -> None:
        pass

    def results_dir(self) -> Path | None:
        return None

    def sync(self) -> None:
        pass

    def take_notice(self) -> str | None:
        notice, self._notice = self._notice, None
        return notice

    def close(self) -> None:
        pass
