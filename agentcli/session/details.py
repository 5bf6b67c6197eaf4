"""Read the details of a session besides its messages: title, start time and the ends of its calls."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from agentcli.core.events import ToolFinished
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Origin, block_from_dict
from agentcli.session.history import finished_call
from agentcli.session.load import read_records


@frozen
class SessionDetails:
    title: str = ""
    """Name given by the user."""
    began: str = ""
    """Timestamp of the first line."""
    calls: dict[str, ToolFinished] = field(default_factory=dict)
    """Ended calls by call id."""


def read_details(path: Path) -> SessionDetails:
    """Read the details; empty if the file cannot be read. Blocking."""
    title, began, calls = "", "", dict[str, ToolFinished]()
    try:
        for record in read_records(path):
            began = began or str(record.get("timestamp") or "")
            if record.get("type") == "custom-title":
                title = str(record.get("customTitle") or "")
            elif record.get("origin") == Origin.TOOL_RESULTS.value:
                calls.update((ended.tool_use_id, ended) for ended in _ended_calls(record))
    except OSError:
        return SessionDetails()
    return SessionDetails(title, began, calls)


def _ended_calls(record: Json) -> list[ToolFinished]:
    try:
        found = [finished_call(record, block_from_dict(block), {}) for block in record["message"]["content"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    return [ended for ended in found if ended is not None]
