"""Picker for an earlier session. The list is read in a thread: there may be thousands of files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentcli.core.text.format import ago
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import safe

if TYPE_CHECKING:
    from agentcli.session.find import SessionInfo

Load = Callable[[], "Sequence[SessionInfo]"]
LastLines = Callable[["SessionInfo"], Sequence[str]]


class SessionPicker(Picker["SessionInfo"]):
    """Returns a `SessionInfo`. `load` and `last_lines` run in threads and may raise OSError."""

    preview_in_thread = True
    preview_end = True
    preview_keeps = 1
    verb = "resume"

    def __init__(self, load: Load, last_lines: LastLines, now: Callable[[], float] = time.time) -> None:
        self._load = load
        self._last_lines = last_lines
        self._now = now
        super().__init__("Resume a session", [], preview=self._lines)
        self.empty = "Loading…"

    def on_mount(self) -> None:
        self.work(self._read, "load")

    async def _read(self) -> None:
        try:
            sessions = await asyncio.to_thread(self._load)
            self.empty = "There are no sessions here yet."
        except OSError as error:
            self.empty = f"The sessions could not be read: {error.strerror or error}."
            sessions = ()
        if self.is_open:
            self.set_rows(session_rows(sessions, self._now()))

    def _lines(self, row: Row[SessionInfo]) -> Sequence[str]:
        try:
            return self._last_lines(row.value) or ("(nothing to show)",)
        except OSError as error:
            return (f"It could not be read: {error.strerror or error}.",)


def session_rows(sessions: Sequence[SessionInfo], now: float) -> list[Row[SessionInfo]]:
    """Rows in the given order (newest first). The folder is shown if there are several."""
    several = len({session.cwd for session in sessions}) > 1
    rows = []
    for session in sessions:
        count = "–" if session.message_count is None else f"{session.message_count:,}"
        detail = f"{ago(now - session.modified):>9}  {count:>4} msgs"
        if several:
            detail += f"  {_short(session.cwd)}"
        rows.append(Row(session, " ".join(safe(session.label).split()) or "(no prompt)", detail))
    return rows


def _short(folder: str) -> str:
    """Last component of the path, which identifies the project."""
    return safe(folder).rstrip("/").rpartition("/")[2] or "/"
