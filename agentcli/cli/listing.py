"""The output of `agentcli config` and `agentcli sessions list`. Reads settings and session files; changes nothing.

All values may come from a repository or a model, so they pass through `plain_line`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from agentcli.config.paths import Paths
from agentcli.config.settings import SettingRow, Settings
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import shown_url
from agentcli.session.find import SessionInfo, list_sessions

_VALUE_WIDTH = 400


def find_sessions(paths: Paths, cwd: Path | None, *, agents: bool = False) -> list[SessionInfo]:
    """Sessions, newest first; of all folders if `cwd` is None. `agents`: also transcripts of sub-agents."""
    return [] if paths.state_dir is None else list_sessions(paths.state_dir, cwd, agents=agents)


def session_lines(sessions: list[SessionInfo], width: int | None = None) -> Iterator[str]:
    """One line per session, cut to `width`, with ids shortened to what `-r` needs. None: complete lines for
    programs."""
    if width is not None:
        yield from _short_lines(sessions, width)
        return
    for session in sessions:
        changed = datetime.fromtimestamp(session.modified).strftime("%Y-%m-%d %H:%M")
        count = "?" if session.message_count is None else str(session.message_count)
        yield f"{session.session_id}  {changed}  {count:>5} messages  {plain_line(session.label, 80)}"


def _short_lines(sessions: list[SessionInfo], width: int) -> Iterator[str]:
    cells = _distinct_cells([session.session_id for session in sessions])
    for session in sessions:
        changed = datetime.fromtimestamp(session.modified).strftime("%Y-%m-%d %H:%M")
        head = f"{session.session_id[:cells]}  {changed}  "
        yield head + plain_line(session.label, max(20, width - len(head) - 1))


def _distinct_cells(ids: list[str]) -> int:
    """Number of leading characters that make the ids distinct; at least 8, the first part of a UUID."""
    return next((cells for cells in range(8, 36) if len({id[:cells] for id in ids}) == len(ids)), 36)


def session_records(sessions: list[SessionInfo]) -> list[Json]:
    return [
        {
            "session_id": session.session_id,
            "title": session.title,
            "first_prompt": session.first_prompt,
            "cwd": session.cwd,
            "modified": session.modified,
            "messages": session.message_count,
            "path": str(session.path),
        }
        for session in sessions
    ]


def setting_lines(settings: Settings) -> Iterator[str]:
    """`key = value # source`: first values that are set, then the defaults."""
    rows = settings.describe()
    for row in sorted(rows, key=lambda row: row.source == "default"):
        value = json.dumps(_without_password(row), ensure_ascii=False, default=str)
        yield f"{row.key} = {plain_line(value, _VALUE_WIDTH)}  # {plain_line(row.source)}"


def setting_records(settings: Settings) -> list[Json]:
    return [{"key": row.key, "value": _without_password(row), "source": row.source} for row in settings.describe()]


def _without_password(row: SettingRow) -> Any:
    """The value without passwords: users paste this output into bug reports."""
    return shown_url(row.value) if row.key == "baseUrl" and isinstance(row.value, str) else row.value
