"""`engine.background`: the session's background commands and agents, to list, read, wait for and stop; and
`engine.wakes`: whether the model should continue without a prompt because one of them has ended.

A woken submission has no prompt: its first messages report the ended tasks. Limits bound a chain in which each one
starts the next task: the turns since the last prompt count together, no budget is exceeded, and after `MAX_WAKES` in a
row the next prompt of the user is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agentcli.agent.costs.costs import Costs
from agentcli.agent.subagents.agents import Agents
from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.ids import Ids
from agentcli.core.messages import NOTE, Message, Origin, user_message
from agentcli.tools.shell.background import BackgroundTask, Shells


class BackgroundCommands:
    """`record` keeps changes between submissions. Agents are tasks too; their own events report what they do."""

    def __init__(self, shells: Shells | None, record: Callable[[ev.Event], None], agents: Agents) -> None:
        self._shells = shells or Shells()
        self._record = record
        self._agents = agents

    @property
    def tasks(self) -> list[BackgroundTask]:
        """All background commands, then all background agents, oldest first, including those that have ended."""
        return [*self.commands, *self._agents.tasks]

    @property
    def any_runs(self) -> bool:
        """Whether a command or an agent runs in the background."""
        return any(task.status == "running" for task in self.tasks)

    def unreported(self) -> list[BackgroundTask]:
        """Tasks that have ended without a report to the model, except those that were stopped."""
        ended = [
            shell.task
            for shell in self._shells.known()
            if shell.status in ("completed", "failed") and not shell.is_reported
        ]
        return [*ended, *self._agents.unreported()]

    @property
    def commands(self) -> list[BackgroundTask]:
        """The background commands, without the agents."""
        return [shell.task for shell in self._shells.known()]

    def output(self, task_id: str) -> str:
        """The output so far, with the middle of a long output left out."""
        shell = self._shells.get(task_id)
        return shell.command.output.text() if shell is not None else self._agents.output(task_id)

    def detach(self, tool_use_id: str) -> bool:
        """Move the command or agent that this tool call runs to the background; false if it runs none."""
        return self._shells.detach(tool_use_id) or self._agents.detach(tool_use_id)

    async def wait_for_changes(self) -> list[ev.Event]:
        """Wait until a command has started or ended, or an agent has reported something. For use between submissions: a
        running submission yields these events itself. Never returns if nothing runs in the background; cancel it."""
        waiting = [start_task(self._agents.wait_for_events()), start_task(self._shells.wait_for_change())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(waiting)
        return self._record_changes()

    async def stop(self, task_id: str) -> bool:
        """Stop a command or an agent; false if there is no such task."""
        shell = self._shells.get(task_id)
        if shell is None:
            return await self._agents.stop(task_id)
        await self._shells.stop(shell)
        return True

    async def stop_all(self) -> list[ev.Event]:
        """Stop everything, as closing the engine does; returns the final event of each task."""
        await self._agents.aclose()
        await self._shells.end_all()
        return self._record_changes()

    def take_changes(self) -> list[ev.Event]:
        """Events of agents and status changes of commands since the last call."""
        return [
            *self._agents.take_events(),
            *(
                ev.BackgroundChanged(task_id=task.id, status=task.status, command=task.command, summary=task.summary)
                for task in self._shells.take_changes()
            ),
        ]

    async def aclose(self) -> None:
        await self._shells.aclose()
        self._record_changes()

    def _record_changes(self) -> list[ev.Event]:
        changes = self.take_changes()
        for event in changes:
            self._record(event)
        return changes


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
        may_wake = has_turns and self._count < MAX_WAKES and not self._costs.budget.is_spent
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
