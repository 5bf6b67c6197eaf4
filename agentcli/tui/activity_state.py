"""What the activity line shows while events arrive. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.model import Activity


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
