"""Commands in the background: how they are doing, their last output, and stopping them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from agentcli.core.format import elapsed
from agentcli.tui.sheets.page import TextPage
from agentcli.tui.sheets.picker import ListSheet
from agentcli.tui.sheets.rows import Row
from agentcli.tui.sheets.runs import safe
from agentcli.tui.sheets.sheet import Keys
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from agentcli.tools.shell.background import BackgroundTask

ReadOutput = Callable[[str], Sequence[str]]

_SIGNS = {"running": "●", "completed": "✓", "failed": "✗", "killed": "■"}


class TasksPage(ListSheet[str, tuple[Literal["stop"], str]]):
    """Returns `("stop", id)` for a task that is to be stopped. Whoever opens the page keeps it up to date: `update`."""

    letters = True
    share = 0.9
    preview_end = True
    verb = "show output"
    empty = "No commands in the background."

    def __init__(
        self, tasks: Sequence[BackgroundTask], output: ReadOutput | None = None, palette: Palette | None = None
    ) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._output = output
        preview = None if output is None else lambda row: output(row.value) or ("(no output yet)",)
        super().__init__("Background commands", task_rows(tasks), palette, preview=preview)

    def update_tasks(self, tasks: Sequence[BackgroundTask]) -> None:
        self._tasks = {task.id: task for task in tasks}
        self.set_rows(task_rows(tasks))

    def choose(self, row: Row[str]) -> None:
        if self._output is not None:
            title = f"{row.value}: {row.label}"
            self.open(TextPage(title, self._output(row.value) or ["(no output yet)"], self.palette))

    def letter(self, key: str) -> bool:
        row = self.row
        if key != "k" or row is None:
            return False
        if self._tasks[row.value].status == "running":
            self.dismiss(("stop", row.value))
        else:
            self.say(f"{row.value} has ended already.")
        return True

    def keys(self) -> Keys:
        if not self._tasks:
            return [("Esc", "back")]
        running = self.row is not None and self._tasks[self.row.value].status == "running"
        stop = [("k", "stop")] if running and not self.searching else []
        show = [("Enter", self.verb)] if self._output is not None and self.row is not None else []
        search = [] if self.searching else [("/", "search")]
        return [*search, ("↑↓", "move"), *stop, *show, ("Esc", "end search" if self.searching else "back")]


def task_rows(tasks: Sequence[BackgroundTask]) -> list[Row[str]]:
    rows = []
    for task in tasks:
        ended = f"  {safe(task.summary, 80)}" if task.summary and task.summary != task.status else ""
        detail = f"{task.id:<7} {task.status:<9} {elapsed(task.seconds):>11}{ended}"
        rows.append(Row(task.id, " ".join(safe(task.command).split()), detail, _SIGNS[task.status]))
    return rows
