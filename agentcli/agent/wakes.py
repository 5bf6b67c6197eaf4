"""`engine.wakes`: whether the model should continue without a prompt because a background task has ended.

A woken submission has no prompt: its first messages report the ended tasks. Limits bound a chain in which each one
starts the next task: the turns since the last prompt count together, no budget is exceeded, and after `MAX_WAKES` in a
row the next prompt of the user is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.background_commands import BackgroundCommands
from agentcli.agent.costs.costs import Costs
from agentcli.core import events as ev
from agentcli.core.ids import Ids
from agentcli.core.messages import NOTE, Message, Origin, user_message
from agentcli.tools.shell.background import BackgroundTask

MAX_WAKES = 10
_MAX_NAMED = 3
_TEXT = (
    "[You were idle when this background work ended. Continue with what waited for it; if nothing is left to do, or "
    "other background work has to end first, say so in a sentence.]"
)


class Wakes:
    def __init__(
        self,
        background: BackgroundCommands,
        costs: Costs,
        max_turns: Callable[[], int | None],
        is_running: Callable[[], bool],
    ) -> None:
        self._background = background
        self._costs = costs
        self._max_turns = max_turns
        self._is_running = is_running
        self._count = 0
        """Woken submissions since the last prompt."""
        self.turns = 0
        """Turns since the last prompt."""

    def reset(self) -> None:
        """A prompt begins."""
        self._count = self.turns = 0

    def due(self) -> Sequence[BackgroundTask]:
        """Ended tasks that the model does not know of, if it may be woken for them now."""
        limit = self._max_turns()
        has_turns = limit is None or self.turns < limit
        may_wake = has_turns and self._count < MAX_WAKES and not self._costs.is_budget_spent
        return self._background.unreported() if may_wake and not self._is_running() else ()

    def begin(self, ids: Ids) -> tuple[ev.NoticeRaised, Message]:
        """Start a woken submission: the notice for the user, and the first message."""
        tasks = self._background.unreported()
        self._count += 1
        named = ", ".join(task.id for task in tasks[:_MAX_NAMED])
        more = f" and {len(tasks) - _MAX_NAMED} more" if len(tasks) > _MAX_NAMED else ""
        last = " The next one waits for your prompt." if self._count == MAX_WAKES else ""
        text = f"Continuing because {named}{more} ended. Esc stops.{last}"
        return (
            ev.NoticeRaised(text=text, code="background"),
            user_message(_TEXT, ids.new(), Origin.ATTACHMENT, {NOTE: {"about": "background"}}),
        )
