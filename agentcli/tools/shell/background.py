"""Background commands of a session: limited in number, all stopped with the session.

Tools add commands and find them by id; the engine takes the changes for its events; a front end can move the foreground
command here (`detach`). Permissions are not checked here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal

from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json
from agentcli.core.processes.child import exit_text
from agentcli.core.processes.orphan_processes import Watch, end_marked, new_mark
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.shell.running_command import ShellCommand, describe_refused_hosts

MAX_RUNNING = 20
_MAX_KEPT = 40
"""Maximum commands, including finished ones, whose last output can still be read."""

ENDED_WITH_SESSION = "ended because agentcli was closed"

Status = Literal["running", "completed", "failed", "killed"]


@frozen
class BackgroundTask:
    """Snapshot of a background command, for display."""

    id: str
    command: str
    status: Status
    summary: str
    """How it ended; empty while it runs."""
    seconds: float = 0.0
    """Running time in seconds."""

    def report(self) -> Json:
        """JSON for programs, in the format of stream-json's `task_notification`."""
        status = "stopped" if self.status == "killed" else self.status
        return {"task_id": self.id, "command": self.command, "status": status, "summary": self.summary}


@slotted
class EarlierShell:
    """A background command of an earlier process of the session: it has ended, and its output is lost."""

    id: str
    command: str
    ended: str
    is_reported: bool = False
    """Whether the model knows that it has ended."""


@slotted
class Shell:
    """A background command. Only `Shells` changes it, except for `is_reported`."""

    id: str
    command: ShellCommand
    began: float
    status: Status = "running"
    over: float | None = None
    is_reported: bool = False
    """Whether the model knows that it has ended."""
    stopping: bool = False
    with_session: bool = False
    """Whether it is being stopped because the session closes."""

    @property
    def ended(self) -> str:
        """How it ended; empty while it runs."""
        if self.status == "running":
            return ""
        killed = ENDED_WITH_SESSION if self.with_session else "killed"
        ended = killed if self.status == "killed" else exit_text(self.command.code)
        if self.status != "killed" and self.command.stopped_for:
            ended = f"{ended}. {self.command.stopped_for}"
        if hosts := self.command.refused_hosts:
            ended = f"{ended}; {describe_refused_hosts(hosts)}"
        return "; ".join((ended, *(f"Sandbox: {finding.text}" for finding in self.command.findings)))

    @property
    def task(self) -> BackgroundTask:
        seconds = (asyncio.get_running_loop().time() if self.over is None else self.over) - self.began
        return BackgroundTask(self.id, plain_line(self.command.text), self.status, self.ended, seconds)


class Shells:
    """The background commands of one session, on one event loop. Call `aclose` at the end."""

    def __init__(self, earlier: Sequence[EarlierShell] = (), last_number: int = 0) -> None:
        """`last_number`: the highest id number that the session has used, so that no id is used twice."""
        self.earlier = tuple(earlier)
        self.mark = new_mark()
        """Environment mark of all processes that the session starts."""
        self._shells: dict[str, Shell] = {}
        self._count = last_number
        self._changes: list[BackgroundTask] = []
        self._changed = asyncio.Event()
        self._foreground: dict[str, asyncio.Event] = {}
        self._watch = Watch()
        self._watching = False

    async def watch(self) -> None:
        """Call before starting a command without a sandbox. Ensures that nothing outlives this process, even if it is
        killed."""
        self._watching = True
        await self._watch.start(self.mark)

    @contextlib.contextmanager
    def foreground(self, call_id: str) -> Iterator[asyncio.Event]:
        """While a command runs in the foreground: an event that is set to move it to the background."""
        wanted = self._foreground[call_id] = asyncio.Event()
        try:
            yield wanted
        finally:
            if self._foreground.get(call_id) is wanted:
                del self._foreground[call_id]

    def detach(self, tool_use_id: str) -> bool:
        """Move the command of this call to the background; False if it runs no command or the limit is reached."""
        wanted = self._foreground.get(tool_use_id)
        if wanted is None or self.full:
            return False
        wanted.set()
        return True

    @property
    def full(self) -> bool:
        return sum(shell.status == "running" for shell in self._shells.values()) >= MAX_RUNNING

    def add(self, command: ShellCommand) -> Shell:
        """Take over a running command; its starter must no longer use it."""
        self._count += 1
        shell = Shell(f"bash_{self._count}", command, asyncio.get_running_loop().time())
        self._shells[shell.id] = shell
        over = [each for each in self._shells.values() if each.status != "running"]
        for old in over[: max(0, len(self._shells) - _MAX_KEPT)]:
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
        """All commands, oldest first, including finished ones."""
        return list(self._shells.values())

    def take_changes(self) -> list[BackgroundTask]:
        """Commands started or ended since the last call."""
        changes, self._changes = self._changes, []
        self._changed.clear()
        return changes

    async def wait_for_change(self) -> None:
        """Wait until `take_changes` has something to return."""
        await self._changed.wait()

    async def stop(self, shell: Shell) -> None:
        shell.stopping = True
        await shell.command.stop()

    async def end_all(self) -> None:
        """Stop all commands because the session closes: SIGTERM, two seconds, SIGKILL; all in parallel."""
        shells = [shell for shell in self._shells.values() if not shell.command.done]
        for shell in shells:
            shell.with_session = True
        await asyncio.gather(*(self.stop(shell) for shell in shells))

    async def aclose(self) -> None:
        """Stop everything and free all resources."""
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
