"""What the transcript keeps of a call that has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.interactive import wording
from agentcli.tui.model import ToolItem

RESULT_SHOWN = 64_000
"""Maximum number of characters of a result kept for the screen; the session file has all of it."""


def ended_call(event: ev.ToolFinished, display: Json) -> dict[str, Any]:
    """Fields of the item of a call that has ended."""
    status = wording.tool_outcome(event)
    return {
        "status": status,
        "summary": " · ".join(filter(None, (plain_line(event.summary), wording.accepted_hunks(event)))),
        "denied_by": plain_line(event.denied_by),
        "display": display,
        # No log is kept for a sub-agent.
        "result": None if event.agent else event.result,
        # If the display has the text, the model's version of it is never shown.
        "output": "" if status == "done" and display.get("text") else plain_text(event.result.text[:RESULT_SHOWN]),
        "duration_ms": event.duration_ms,
        "background": bool(event.display.get("background")),
        "has_changes": event.display.get("changed_files") is True,
    }


def with_changes(item: ToolItem, event: ev.CommandChangedFiles) -> ToolItem:
    return replace(item, changed=wording.changed_files(event), changes=plain_text(event.diff))
