"""Background commands of earlier processes of a resumed session: their ids and outcomes.

The session file records each start and end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentcli.core.messages import NOTE, RESULT_DATA, Json, Message
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.tools.shell.background import ENDED_WITH_SESSION, EarlierShell, Shells

_NUMBER = lazy_pattern(r"bash_(\d{1,9})")


def resumed_shells(log: Sequence[Message], recorded: Mapping[str, Json]) -> Shells:
    """The background commands of a resumed session; `recorded`: those in its file, by id."""
    announced = _announced(log) if recorded else set()
    earlier = [
        EarlierShell(shell_id, str(task.get("command", "")), _ended(task), is_reported=shell_id in announced)
        for shell_id, task in recorded.items()
    ]
    numbers = (int(match[1]) for shell_id in recorded if (match := _NUMBER.fullmatch(shell_id)))
    return Shells(earlier, max(numbers, default=0))


def _ended(task: Json) -> str:
    """Outcome of a command; one without a recorded end was stopped when the program ended."""
    running = task.get("status", "running") == "running"
    return ENDED_WITH_SESSION if running else str(task.get("summary") or task["status"])


def _announced(log: Sequence[Message]) -> set[str]:
    """The ids of commands whose end was reported to the model."""
    announced: set[str] = set()
    for message in log:
        announced.update(map(str, message.meta.get(NOTE, {}).get("shells", ())))
        announced.update(str(data.get("ended", "")) for data in message.meta.get(RESULT_DATA, {}).values())
    return announced
