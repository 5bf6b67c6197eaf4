"""The background commands of a session: at most so many, all ended with it.

Tools put commands here and ask for them by id; the engine takes the changes for its events; a front end can send the
command that runs in front here too (`detach`). Nothing here decides what may run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.plaintext import plain_line
from agentcli.tools.process import exit_text
from agentcli.tools.shell.orphan_processes import Watch, end_marked, new_mark
from agentcli.tools.shell.running_command import ShellCommand, refused_hosts_note

MOST_RUNNING = 20
_MOST_KEPT = 40
"""With those that have ended: their last output can still be asked for."""

ENDED_WITH_SESSION = "ended because agentcli was closed"

Status = Literal["running", "completed", "failed", "killed"]


@frozen
class BackgroundTask:
    """A background command as it is at one moment, for people."""

    id: str
    command: str
    status: Status
    summary: str
    """How it ended; empty while it runs."""
    seconds: float = 0.0
    """How long it has run."""

    def report(self) -> Json:
        """For programs, in the words of stream-json's `task_notification`."""
        status = "stopped" if self.status == "killed" else self.status
        return {"task_id": self.id, "command": self.command, "status": status, "summary": self.summary}


@dataclass(slots=True)
class EarlierShell:
    """A background command of an earlier process of the session: it has ended, and its output is gone."""

    id: str
    command: str
    ended: str
    told: bool = False
    """The model knows that it has ended."""


@dataclass(slots=True)
class Shell:
    """A background command. Changed by `Shells` only, but for `told`."""

    id: str
    command: ShellCommand
    began: float
    status: Status = "running"
    over: float | None = None
    told: bool = False
    """The model knows that it has ended."""
    stopping: bool = False
    with_session: bool = False
    """It is stopped because the session is closed."""

    @property
    def ended(self) -> str:
        """How it ended, in words; empty while it runs."""
        if self.status == "running":
            return ""
        killed = ENDED_WITH_SESSION if self.with_session else "killed"
        ended = killed if self.status == "killed" else exit_text(self.command.code)
        if self.status != "killed" and self.command.stopped_for:
            ended = f"{ended}. {self.command.stopped_for}"
        if hosts := self.command.refused_hosts:
            ended = f"{ended}; {refused_hosts_note(hosts)}"
        return "; ".join((ended, *(f"Sandbox: {finding.text}" for finding in self.command.findings)))

    @property
    def task(self) -> BackgroundTask:
        seconds = (asyncio.get_running_loop().time() if self.over is None else self.over) - self.began
        return BackgroundTask(self.id, plain_line(self.command.text), self.status, self.ended, seconds)


class Shells:
    """One per session; lives on one event loop. `aclose` it."""

    def __init__(self, earlier: Sequence[EarlierShell] = (), last_number: int = 0) -> None:
        """`last_number`: of the ids that the session has used before, so that none is used twice."""
        self.earlier = tuple(earlier)
        self.mark = new_mark()
        """In the environment of everything the session starts."""
        self._shells: dict[str, Shell] = {}
        self._count = last_number
        self._changes: list[BackgroundTask] = []
        self._changed = asyncio.Event()
        self._in_front: dict[str, asyncio.Event] = {}
        self._watch = Watch()
        self._watching = False

    async def watch(self) -> None:
        """Before a command is started that no sandbox holds: nothing may outlive this process, even if it is killed."""
        self._watching = True
        await self._watch.start(self.mark)

    # ------------------------------------------------------------------------------------------- what runs in front

    @contextlib.contextmanager
    def in_front(self, call_id: str) -> Iterator[asyncio.Event]:
        """While a command runs in front: an event that is set when somebody wants it in the background."""
        wanted = self._in_front[call_id] = asyncio.Event()
        try:
            yield wanted
        finally:
            if self._in_front.get(call_id) is wanted:
                del self._in_front[call_id]

    def detach(self, tool_use_id: str) -> bool:
        """Send the command that this call runs to the background; false if it runs none, or there is no room."""
        wanted = self._in_front.get(tool_use_id)
        if wanted is None or self.full:
            return False
        wanted.set()
        return True

    # ------------------------------------------------------------------------------------------- in the background

    @property
    def full(self) -> bool:
        return sum(shell.status == "running" for shell in self._shells.values()) >= MOST_RUNNING

    def add(self, command: ShellCommand) -> Shell:
        """Take over a running command; whoever started it has nothing to do with it any more."""
        self._count += 1
        shell = Shell(f"bash_{self._count}", command, asyncio.get_running_loop().time())
        self._shells[shell.id] = shell
        over = [each for each in self._shells.values() if each.status != "running"]
        for old in over[: max(0, len(self._shells) - _MOST_KEPT)]:
            del self._shells[old.id]
        self._note(shell)
        command.on_over(lambda: self._over(shell))
        return shell

    def get(self, shell_id: str) -> Shell | None:
        return self._shells.get(shell_id)

    @property
    def any_runs(self) -> bool:
        return any(shell.status == "running" for shell in self.known())

    def known(self) -> list[Shell]:
        """The oldest first, also those that have ended."""
        return list(self._shells.values())

    def take_changes(self) -> list[BackgroundTask]:
        """What has begun or ended since this was last asked."""
        changes, self._changes = self._changes, []
        self._changed.clear()
        return changes

    async def wait_for_change(self) -> None:
        """Return when `take_changes` has something to give."""
        await self._changed.wait()

    async def stop(self, shell: Shell) -> None:
        shell.stopping = True
        await shell.command.stop()

    async def end_all(self) -> None:
        """End every command because the session is closed: SIGTERM, two seconds, SIGKILL; all at the same time."""
        shells = [shell for shell in self._shells.values() if not shell.command.done]
        for shell in shells:
            shell.with_session = True
        await asyncio.gather(*(self.stop(shell) for shell in shells))

    async def aclose(self) -> None:
        """End everything."""
        shells = [shell for shell in self._shells.values() if not shell.command.done]
        try:
            await self.end_all()
            if self._watching:
                await end_marked(self.mark)
        finally:
            for shell in shells:
                await shell.command.aclose()
            self._watch.close()

    def _over(self, shell: Shell) -> None:
        if shell.stopping or shell.command.broken:
            shell.status = "killed"
        else:
            shell.status = "completed" if shell.command.code == 0 else "failed"
        shell.over = asyncio.get_running_loop().time()
        self._note(shell)

    def _note(self, shell: Shell) -> None:
        self._changes.append(shell.task)
        self._changed.set()
