"""What a presenter keeps while events arrive: the activity line, continued answers, ended calls. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentcli.core import events as ev
from agentcli.core.messages import AnswerTracker, Json, Message, Origin
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.interactive import wording
from agentcli.tui.model import Activity, ToolItem


class ActivityState:
    """The current activity. Its times leave out how long the user took for answers."""

    def __init__(self) -> None:
        self.activity = Activity()
        self._characters = 0
        self._tokens = 0
        self._asked: float | None = None
        """Time since which the user is asked."""

    def begin(self, text: str, now: float, agents: int) -> None:
        self._characters = self._tokens = 0
        self._asked = None
        self.activity = Activity(phase="starting", text=text, began=now, agents=agents)

    def end(self, agents: int) -> None:
        self._asked = None
        self.activity = Activity(agents=agents)

    def enter(self, phase: str, text: str, now: float, until: float = 0.0, step_began: float = 0.0) -> None:
        before = self.activity
        if before.phase == "interrupting":
            return
        began = before.began
        if phase == "waiting" and self._asked is None:
            self._asked = now
        elif phase != "waiting" and self._asked is not None:
            began, self._asked = began + now - self._asked, None
        changes = {"phase": phase, "text": text, "until": until, "step_began": step_began, "began": began}
        self.activity = replace(before, **changes)  # type: ignore[arg-type]

    def count(self, text: str) -> None:
        """Estimate output tokens at four characters each; the exact number is known only at the end of a response."""
        self._characters += len(text)
        self.activity = replace(self.activity, tokens_out=self._tokens + self._characters // 4)

    def count_reported(self, tokens: int) -> None:
        self._characters = 0
        self._tokens += tokens
        self.activity = replace(self.activity, tokens_out=self._tokens)

    def set_agents(self, running: int) -> None:
        if self.activity.agents != running:
            self.activity = replace(self.activity, agents=running)


def step_text(title: str, input: Json) -> str:
    """What a running call is called: the description of a command, else its title."""
    description = input.get("description") if isinstance(input.get("command"), str) else None
    return plain_line(description if isinstance(description, str) and description.strip() else title, 80)


def active_todo(todos: Sequence[Json]) -> str:
    """The entry of a task list that is in progress; "" if there is none."""
    for todo in todos:
        if todo.get("status") == "in_progress":
            words = todo.get("activeForm") or todo.get("content")
            return plain_line(words, 300) if isinstance(words, str) else ""
    return ""


class AnswerPieces:
    """Call `take` with every message of the conversation, and `joint` for every text block of a reply."""

    def __init__(self) -> None:
        self._tracker = AnswerTracker()
        self._tail = ""
        self._first: tuple[str, int] | None = None
        """Message id and index of the first text block of the current reply."""

    def take(self, message: Message) -> None:
        self._tracker.take(message)
        if message.origin is Origin.REPLY and not message.is_copy:
            text = message.text
            self._tail = text[len(text.rstrip("\n")) :]

    def joint(self, message_id: str, index: int, text: str) -> str | None:
        """Line breaks between this block and the answer it continues; None if it starts a new answer."""
        if not self._tracker.unfinished or not text.strip():
            return None
        if self._first is None or self._first[0] != message_id:
            self._first = (message_id, index)
        if self._first[1] != index:
            return None
        return self._tail + text[: len(text) - len(text.lstrip("\n"))]


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
