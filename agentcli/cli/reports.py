"""`agentcli doctor`, `config` and `sessions`: reports about this installation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agentcli.cli.flags import Parsed
from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo, echo_json, echo_styled, notice
from agentcli.config.paths import Paths
from agentcli.config.settings import SettingRow, Settings
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.providers.credentials import shown_url
from agentcli.session.find import SessionInfo, list_sessions

_VALUE_WIDTH = 400


def doctor(given: Parsed) -> int:
    from agentcli.assemble import Options
    from agentcli.doctor.checks import run_checks
    from agentcli.doctor.finding import CheckContext, Finding, OutputScreen, finding_lines, summary

    as_json = bool(given.get("json"))
    screen = OutputScreen.here(may_ask=not as_json)
    _width, coloured = terminal_style()
    context = CheckContext(Options(sandbox=given.get("sandbox")), os.environ, screen)
    found: list[Finding] = []
    for finding in run_checks(context, online=bool(given.get("online"))):
        found.append(finding)
        if not as_json:
            # Print each finding when it is known: a slow check does not delay the others.
            for line in finding_lines(finding, screen.columns, coloured):
                echo_styled(line)
    failed = any(finding.status == "fail" for finding in found)
    if as_json:
        echo_json({"ok": not failed, "checks": [finding.record() for finding in found]})
    else:
        echo(f"\n{summary(found)}")
    return int(failed)


def config(given: Parsed) -> None:
    from agentcli.assemble import Options, settings_for

    settings = settings_for(Options(trust=bool(given.get("trust"))))
    for problem in settings.problems:
        notice(problem.text)
    if given.get("json"):
        rows = settings.describe()
        echo_json([{"key": row.key, "value": _without_password(row), "source": row.source} for row in rows])
        return
    for line in _setting_lines(settings):
        echo(line)


def _setting_lines(settings: Settings) -> Iterator[str]:
    """`key = value # source`: first values that are set, then the defaults."""
    for row in sorted(settings.describe(), key=lambda row: row.source == "default"):
        value = json.dumps(_without_password(row), ensure_ascii=False, default=str)
        yield f"{row.key} = {plain_line(value, _VALUE_WIDTH)}  # {plain_line(row.source)}"


def _without_password(row: SettingRow) -> Any:
    """The value without passwords: users paste this output into bug reports."""
    return shown_url(row.value) if row.key == "baseUrl" and isinstance(row.value, str) else row.value


def sessions(given: Parsed) -> None:
    everywhere = bool(given.get("all"))
    state = Paths.from_environ(os.environ).state_dir
    found = (
        []
        if state is None
        else list_sessions(state, None if everywhere else Path.cwd(), agents=bool(given.get("agents")))
    )
    if given.get("json"):
        echo_json([_session_record(session) for session in found])
        return
    if not found:
        echo("No sessions in this folder yet. To list all folders: agentcli sessions list --all", err=True)
    # A session of another folder can only be resumed by its full id.
    width = terminal_style()[0] if sys.stdout.isatty() and not everywhere else None
    for line in session_lines(found, width):
        echo(line)


def session_lines(sessions: Sequence[SessionInfo], width: int | None = None) -> Iterator[str]:
    """One line per session, cut to `width`, with ids shortened to what `-r` needs. None: complete lines for
    programs."""
    ids = [session.session_id for session in sessions]
    # As many leading characters as make the ids distinct; at least 8, the first part of a UUID.
    cells = next((cells for cells in range(8, 36) if len({id[:cells] for id in ids}) == len(ids)), 36)
    for session in sessions:
        changed = datetime.fromtimestamp(session.modified).strftime("%Y-%m-%d %H:%M")
        if width is None:
            count = "?" if session.message_count is None else str(session.message_count)
            yield f"{session.session_id}  {changed}  {count:>5} messages  {plain_line(session.label, 80)}"
        else:
            head = f"{session.session_id[:cells]}  {changed}  "
            yield head + plain_line(session.label, max(20, width - len(head) - 1))


def _session_record(session: SessionInfo) -> Json:
    return {
        "session_id": session.session_id,
        "title": session.title,
        "first_prompt": session.first_prompt,
        "cwd": session.cwd,
        "modified": session.modified,
        "messages": session.message_count,
        "path": str(session.path),
    }
