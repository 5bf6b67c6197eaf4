"""The `/tasks` page: sub-agents and background commands with status and output, and a key to stop them; one agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.core.text.format import format_elapsed, money, token_count
from agentcli.tui.blocks.agent import AgentBlock
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.progress import AGENT_SIGNS, AgentItem, AgentProgress
from agentcli.tui.screens.page import LivePage, TextPage
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import safe

if TYPE_CHECKING:
    from agentcli.tools.shell.background import BackgroundTask

ReadOutput = Callable[[str], Sequence[str]]

_SIGNS = {"running": "●", "completed": "✓", "failed": "✗", "killed": "■"}
_PREVIEW_CELLS = 46
_ID_CELLS = 7


class TasksPage(ListSheet[str, str]):
    """Returns the id of a command or agent to stop. The caller updates the page with `update_tasks`."""

    letters = True
    share = 0.9
    preview_end = True
    empty = "No agents, no background commands."

    def __init__(
        self,
        tasks: Sequence[BackgroundTask],
        output: ReadOutput,
        agents: Sequence[AgentProgress] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._clock = clock
        title = "Agents and background commands" if agents else "Background commands"
        super().__init__(title, self._rows(tasks, agents), preview=lambda row: self._lines_of(row.value))

    def update_tasks(self, tasks: Sequence[BackgroundTask], agents: Sequence[AgentProgress] = ()) -> None:
        self.set_rows(self._rows(tasks, agents))

    def _rows(self, tasks: Sequence[BackgroundTask], agents: Sequence[AgentProgress]) -> list[Row[str]]:
        self._agents = dict(_name_agents(agents))
        # The engine lists background agents as tasks too.
        self._tasks = {task.id: task for task in tasks if task.id not in self._agents}
        group = "Background commands" if agents else ""
        widest = max((_ID_CELLS, *map(len, self._agents)))
        commands = task_rows(list(self._tasks.values()), group, widest)
        return [*agent_rows(self._agents, self._clock(), widest), *commands]

    def choose(self, row: Row[str]) -> None:
        progress = self._agents.get(row.value)
        if progress is not None:
            self.open(AgentPage(progress, self._clock), lambda _stops: self._stop(row.value))
        else:
            self.open(TextPage(f"{row.value}: {row.label}", self._lines_of(row.value)))

    def actions(self) -> Sequence[Action]:
        if self.row is None:
            return ()
        return [("s", "stop" if self._is_running(self.row.value) else "", self._stop_marked)]

    def _stop_marked(self) -> None:
        assert self.row is not None
        name = self.row.value
        self._stop(name) if self._is_running(name) else self.say(f"{name} has ended already.")

    def enter_word(self) -> str:
        if self.row is None:
            return ""
        return "open" if self.row.value in self._agents else "show output"

    def keys(self) -> Keys:
        return super().keys() if self._tasks or self._agents else [("Esc", "back")]

    def _stop(self, name: str) -> None:
        progress = self._agents.get(name)
        self.dismiss(progress.id if progress is not None else name)

    def _is_running(self, name: str) -> bool:
        progress = self._agents.get(name)
        return progress.is_running if progress is not None else self._tasks[name].status == "running"

    def _lines_of(self, name: str) -> Sequence[str]:
        progress = self._agents.get(name)
        if progress is None:
            return self._output(name) or ("(no output yet)",)
        block = AgentBlock(AgentItem(id=progress.id, progress=progress))
        block.expanded = True
        return [line.strip.text for line in block.layout(_PREVIEW_CELLS, self.palette)][-200:]


class AgentPage(LivePage[bool]):
    """The transcript of one sub-agent. Closes with True if the user stops the agent."""

    def __init__(self, progress: AgentProgress, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(progress.title)
        self._progress = progress
        self._clock = clock
        self._block = AgentBlock(AgentItem(id=progress.id, progress=progress))
        self._block.expanded = True

    def body(self, width: int) -> list[BlockLine]:
        return list(self._block.layout(width, self.palette))

    def has_changed(self) -> bool:
        return self._block.tick(self._clock())

    def keys(self) -> Keys:
        *keys, last = super().keys()
        stop = [("s", "stop")] if self._progress.is_running and not self.searching else []
        return [*keys, *stop, last]

    def read_on(self, key: str) -> bool:
        if key == "s" and self._progress.is_running:
            self.dismiss(True)
            return True
        return super().read_on(key)


def _name_agents(agents: Sequence[AgentProgress]) -> Iterator[tuple[str, AgentProgress]]:
    """Pair each agent with a unique name. Ids repeat after a resume; then only the newest agent keeps the plain id."""
    last = {progress.id: place for place, progress in enumerate(agents)}
    for place, progress in enumerate(agents):
        yield progress.id if last[progress.id] == place else f"{progress.id} ({place + 1})", progress


def agent_rows(agents: dict[str, AgentProgress], now: float, widest: int) -> list[Row[str]]:
    rows = []
    for name, progress in agents.items():
        seconds = progress.elapsed(now)
        facts = [f"{token_count(progress.tokens)} tokens"] if progress.tokens else []
        facts += [money(progress.cost_usd)] if progress.cost_usd else []
        facts += [progress.doing] if progress.is_running else []
        detail = f"{name:<{widest}} {progress.status:<9} {format_elapsed(seconds):>11}  {' · '.join(facts)}".rstrip()
        label = progress.description or progress.name
        rows.append(Row(name, label, detail, AGENT_SIGNS[progress.status], group="Agents"))
    return rows


def task_rows(tasks: Sequence[BackgroundTask], group: str, widest: int) -> list[Row[str]]:
    rows = []
    for task in tasks:
        ended = f"  {safe(task.summary, 80)}" if task.summary and task.summary != task.status else ""
        detail = f"{task.id:<{widest}} {task.status:<9} {format_elapsed(task.seconds):>11}{ended}"
        rows.append(Row(task.id, " ".join(safe(task.command).split()), detail, _SIGNS[task.status], group=group))
    return rows
