"""The background commands that earlier processes of a resumed session ran: their ids, and what became of each.

The session file has a record of each beginning and end. Sessions of older versions have none: there the results of the
calls that started them tell their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agentcli.core.messages import NOTE, Json, Message
from agentcli.tools.shell.background import ENDED_WITH_SESSION, EarlierShell, Shells

_STARTED = re.compile(r"in the background as (bash_\d+)\b")
_ASKING = ("BashOutput", "KillShell")
_NUMBER = re.compile(r"bash_(\d{1,9})")


def resumed_shells(log: Sequence[Message], recorded: Mapping[str, Json]) -> Shells:
    """The background commands of a session that goes on; `recorded` is what its file says, by id."""
    started = {shell_id: {"command": command} for shell_id, command in _started(log)}
    every: dict[str, Json] = {**started, **recorded}
    told = _told(log) if every else set()
    earlier = [
        EarlierShell(shell_id, str(task.get("command", "")), _ended(task), is_reported=shell_id in told)
        for shell_id, task in every.items()
    ]
    numbers = (int(match[1]) for shell_id in every if (match := _NUMBER.fullmatch(shell_id)))
    return Shells(earlier, max(numbers, default=0))


def _ended(task: Json) -> str:
    """Nothing outlives the program: a command without a recorded end was ended with it."""
    running = task.get("status", "running") == "running"
    return ENDED_WITH_SESSION if running else str(task.get("summary") or task["status"])


def _started(log: Sequence[Message]) -> Iterator[tuple[str, str]]:
    calls: dict[str, str] = {}
    for message in log:
        calls.update((use.id, str(use.input.get("command", ""))) for use in message.tool_uses if use.name == "Bash")
        for result in message.tool_results:
            if result.tool_use_id in calls and (started := _STARTED.search(result.text[-400:])):
                yield started[1], calls[result.tool_use_id]


def _told(log: Sequence[Message]) -> set[str]:
    """The ids of those whose end the model has been told, or has found out with a call."""
    told: set[str] = set()
    asked: dict[str, str] = {}
    for message in log:
        told.update(map(str, message.meta.get(NOTE, {}).get("shells", ())))
        asked.update((use.id, str(use.input.get("bash_id", ""))) for use in message.tool_uses if use.name in _ASKING)
        for result in message.tool_results:
            ended = "It has ended: " in result.text or " was ended: " in result.text or " had ended" in result.text
            if result.tool_use_id in asked and not result.is_error and ended:
                told.add(asked[result.tool_use_id])
    return told
