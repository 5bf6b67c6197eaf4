"""`engine.background`: the session's background commands, to list, read, wait for and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentcli.core import events as ev
from agentcli.tools.shell.background import BackgroundTask, Shells


class BackgroundCommands:
    """`shells`: None where commands cannot run in the background. `record` keeps changes between submissions."""

    def __init__(self, shells: Shells | None, record: Callable[[ev.Event], None]) -> None:
        self._shells = shells
        self._record = record

    @property
    def tasks(self) -> list[BackgroundTask]:
        """All background commands, the oldest first, also those that have ended."""
        return [shell.task for shell in self._shells.known()] if self._shells is not None else []

    def output(self, task_id: str) -> str:
        """The output of a command so far; the middle of a long one is left out."""
        shell = self._shells.get(task_id) if self._shells is not None else None
        return shell.command.output.text() if shell is not None else ""

    def detach(self, tool_use_id: str) -> bool:
        """Move the command that this tool call runs to the background; false if it runs none."""
        return self._shells is not None and self._shells.detach(tool_use_id)

    async def wait_for_changes(self) -> list[ev.BackgroundChanged]:
        """Wait until commands have started or ended. For between submissions: a running submission yields these events
        itself. Never returns without background commands; cancel it."""
        if self._shells is None:
            await asyncio.Event().wait()
        else:
            await self._shells.wait_for_change()
        return self._recorded_changes()

    async def stop(self, task_id: str) -> bool:
        shell = self._shells.get(task_id) if self._shells is not None else None
        if self._shells is None or shell is None:
            return False
        await self._shells.stop(shell)
        return True

    async def stop_all(self) -> list[ev.BackgroundChanged]:
        """Stop all commands, as closing the engine does; returns how each ended."""
        if self._shells is not None:
            await self._shells.end_all()
        return self._recorded_changes()

    def take_changes(self) -> list[ev.BackgroundChanged]:
        """The commands that have started or ended since the last call."""
        return [
            ev.BackgroundChanged(task_id=task.id, status=task.status, command=task.command, summary=task.summary)
            for task in (self._shells.take_changes() if self._shells is not None else ())
        ]

    async def aclose(self) -> None:
        if self._shells is not None:
            await self._shells.aclose()
            self._recorded_changes()

    def _recorded_changes(self) -> list[ev.BackgroundChanged]:
        changes = self.take_changes()
        for event in changes:
            self._record(event)
        return changes
