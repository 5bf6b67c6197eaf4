"""Turn events of sub-agents into the state that their blocks display. Pure: takes the time, returns operations.

Each agent has its own `Presenter`, so its transcript is built like that of the session; its items are stored in its
`AgentProgress`, not in the session's transcript. A block reads the progress each time it is painted, so most events
need no operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.agent_progress import AgentItem, AgentProgress
from agentcli.tui.model import Operation, Replace

if TYPE_CHECKING:
    from agentcli.tui.presenter import Presenter

ENDED_KEPT = 10
"""Number of ended agents that keep their transcript in memory. Older ones keep only the report."""
_BRIEF_ACTIVITIES = ("", "Working", "Waiting for the model")
"""Activity texts that do not replace the text of the last tool, which is more informative."""


def _update_doing(progress: AgentProgress, event: ev.Event, activity: str) -> None:
    if isinstance(event, ev.PermissionRequested):
        progress.doing, progress.is_doing_brief = plain_line(event.title, 200), False
    elif activity not in ("", progress.doing) and (activity not in _BRIEF_ACTIVITIES or progress.is_doing_brief):
        # A call whose input is still streaming may be refused before it starts, so its text is brief.
        progress.doing, progress.is_doing_brief = activity, isinstance(event, ev.BlockStarted)


@dataclass(slots=True)
class _Run:
    """An agent that is still running."""

    progress: AgentProgress
    presenter: Presenter
    """Presents the agent's own events."""
    item_id: str
    parent: str
    background: bool
    """Continues after the submission ends: this agent, or one of its ancestors, was started in the background."""


class AgentPresenters:
    def __init__(self, session: Presenter, new_presenter: Callable[[str], Presenter]) -> None:
        """`session`: presenter of the main conversation. `new_presenter(id)` creates the presenter of one agent."""
        self._session = session
        self._new_presenter = new_presenter
        self._runs: dict[str, _Run] = {}
        self._ended: deque[AgentProgress] = deque()

    @property
    def running(self) -> int:
        return sum(run.progress.is_running for run in self._runs.values())

    @property
    def running_in_foreground(self) -> int:
        """Number of running agents that the submission waits for."""
        return sum(run.progress.is_running for run in self._runs.values() if not run.background and not run.parent)

    @property
    def waiting(self) -> bool:
        """Whether an agent that the submission waits for needs an answer from the user."""
        return any(run.progress.status == "waiting" for run in self._runs.values() if not run.background)

    def show(self, event: ev.Event, now: float, *, halted: bool = False) -> list[Operation]:
        """Return the operations for an event. `halted`: the submission was interrupted, so of the agents that it waits
        for only `AgentFinished` still counts."""
        if isinstance(event, ev.AgentStarted):
            return self._start(event, now)
        if isinstance(event, ev.AgentMoved):
            return self._move(event)
        run = self._runs.get(event.agent)
        if isinstance(event, ev.AgentFinished):
            return self._finish(event, run, now)
        if run is None or (halted and not run.background):
            return []
        self._count(event, run)
        progress = run.progress
        progress.apply(run.presenter.show_own(event, now))
        _update_doing(progress, event, run.presenter.activity.text)
        before = progress.status
        progress.set_waiting(run.presenter.activity.phase == "waiting", now)
        self._touch(run)
        operations = self._replaced(run) if progress.status != before else []
        if event.policy.scope == "session":
            operations += self._session.note_event(event)
        return operations

    def stop_foreground(self, now: float) -> list[Operation]:
        """Stop the agents of an interrupted submission."""
        operations: list[Operation] = []
        for run in self._runs.values():
            if not run.background and run.progress.is_running:
                run.progress.apply(run.presenter.settled(now))
                run.progress.stop(now)
                operations += self._replaced(run)
        return operations

    def end(self, now: float, *, all: bool = False) -> list[Operation]:
        """Stop all agents that have not finished when a submission (or with `all` the process) ends."""
        ended = {id: run for id, run in self._runs.items() if all or not run.background}
        operations: list[Operation] = []
        for id, run in ended.items():
            run.progress.apply(run.presenter.settled(now))
            run.progress.stop(now)
            operations += self._replaced(run)
            self._forget(id, run)
        return operations

    def _start(self, event: ev.AgentStarted, now: float) -> list[Operation]:
        parent = self._runs.get(event.parent) if event.parent else None
        progress = AgentProgress(event, now)
        owner = parent.presenter if parent is not None else self._session
        item, operations = owner.start_agent(event.tool_use_id, progress)
        background = event.background or (parent is not None and parent.background)
        self._runs[event.agent] = _Run(
            progress, self._new_presenter(event.agent), item.id, event.parent if parent is not None else "", background
        )
        if parent is None:
            return operations
        parent.progress.apply(operations)
        self._touch(parent)
        return []

    def _move(self, event: ev.AgentMoved) -> list[Operation]:
        moved = [self._runs[id] for id in event.agents if id in self._runs]
        for run in moved:
            run.background = True
        for run in moved[:1]:
            run.progress.background = True
            run.progress.version += 1
        return [operation for run in moved[:1] for operation in self._replaced(run)]

    def _finish(self, event: ev.AgentFinished, run: _Run | None, now: float) -> list[Operation]:
        operations: list[Operation] = []
        if run is not None:
            run.progress.apply(run.presenter.settled(now))
            run.progress.finish(event)
            operations = self._replaced(run)
            self._touch(run)
            self._forget(event.agent, run)
        if event.background:
            # Its block may have scrolled far up.
            operations += self._session.note_event(event)
        return operations

    def _forget(self, id: str, run: _Run) -> None:
        self._runs.pop(id, None)
        self._ended.append(run.progress)
        while len(self._ended) > ENDED_KEPT:
            self._ended.popleft().drop_items()

    def _count(self, event: ev.Event, run: _Run) -> None:
        if isinstance(event, ev.MessageAppended) and event.message.origin is Origin.REPLY:
            run.progress.turns += not event.message.is_copy
        if not isinstance(event, ev.UsageReported):
            return
        counted: _Run | None = run
        while counted is not None:
            progress = counted.progress
            progress.tokens += event.usage.prompt_tokens + event.usage.output_tokens
            known = progress.cost_usd is not None and event.cost_usd is not None
            progress.cost_usd = (progress.cost_usd or 0.0) + (event.cost_usd or 0.0) if known else None
            counted = self._runs.get(counted.parent)

    def _touch(self, run: _Run) -> None:
        """Mark the parent agents as changed: their blocks show this agent too."""
        above = self._runs.get(run.parent)
        while above is not None:
            above.progress.version += 1
            above = self._runs.get(above.parent)

    def _replaced(self, run: _Run) -> list[Operation]:
        """Repaint the agent's block now; a nested one is repainted with its parent's block."""
        return [] if run.parent else [Replace(AgentItem(id=run.item_id, progress=run.progress))]
