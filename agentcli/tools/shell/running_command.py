"""One running shell command: its processes, its output, its final directory. Used in foreground and background.

Owns the processes from start to end: after `stop` or `aclose` none of them runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal as signals
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.processes.child import GRACE, Child, Pipe
from agentcli.core.processes.launch import LIMITS_FROM_SECONDS, Launch, SandboxFinding
from agentcli.core.processes.orphan_processes import (
    CALL_VARIABLE,
    SESSION_VARIABLE,
    end_marked,
    kill_marked,
    marked,
    new_mark,
    terminate_outside,
)
from agentcli.core.processes.own_programs import find_program
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import ToolContext
from agentcli.tools.shell.environment import child_environment, harmless_git
from agentcli.tools.shell.output import CollectedOutput

_DRAIN = 0.2
"""Seconds to wait for output after the command has ended: another process may hold the pipe open."""
_OTHERS = "//others"
"""Reported by a sandboxed command that leaves processes running. It cannot be a path."""
USUAL_PROCESSES = "AGENTCLI_PROCESSES"
"""Variable with which a launcher passes the usual number of processes in its sandbox."""
_MAX_HOSTS = 5
_MAX_WAITING = 65_536
"""Bytes of output after a stop that are held back to look for `_SHELL_REPORT`."""
_SHELL_REPORT = re.compile(rb"^Terminated[ \t]*(?:\n|\Z)", re.MULTILINE)
"""Line in which bash reports that the stopped command ended."""
SELF_CONTAINED = ("bubblewrap",)
"""Launchers whose sandboxes end with their first process."""


class CommandEnding(Enum):
    EXITED = "exited"
    TIMED_OUT = "timed out"
    ABORTED = "aborted"


class ShellCommand:
    def __init__(
        self, text: str, child: Child, folder: Pipe, launch: Launch, output: CollectedOutput, mark: str | None
    ) -> None:
        """`mark`: the environment mark of its processes; None in a sandbox, which contains them."""
        self.text = text
        self.output = output
        self.left_running = False
        """Whether some of its processes were still running at its end, and were stopped."""
        self.folder = ""
        """The working directory at its end, as the command reported it."""
        self.stopped_for = ""
        """Message about the sandbox limit for which it was stopped; empty if it was not."""
        self.mark = mark
        self.findings: tuple[SandboxFinding, ...] = ()
        """Files that the sandbox found and removed; complete when the command has ended."""
        self.stopped_by_sandbox = False
        self._child = child
        self._folder = folder
        self._launch = launch
        loop = asyncio.get_running_loop()
        if launch.watch >= 0:
            loop.add_reader(launch.watch, self._look)
        self._limits = loop.call_later(LIMITS_FROM_SECONDS, launch.watch_limits)
        self._work = start_task(self._until_over(), name="shell command")

    @classmethod
    async def start(cls, text: str, context: ToolContext, output: CollectedOutput) -> ShellCommand:
        """Start a command. Raises OSError if there is no shell or no folder."""
        mark = new_mark()
        reading, writing = os.pipe()
        folder = Pipe(reading)
        launch: Launch | None = None
        try:
            try:
                launch = _launch(text, context, mark, writing)
                if launch.terminate is None and context.shells is not None:
                    await context.shells.watch()
                # No await from here on: a cancellation would leave processes that nothing owns yet.
                child = Child.start(
                    launch.arguments,
                    cwd=context.cwd,
                    environ=launch.environ,
                    pass_descriptors=(writing, *launch.pass_descriptors),
                )
            finally:
                os.close(writing)
        except BaseException:
            folder.close()
            if launch is not None:
                await in_thread(launch.close)
            raise
        child.terminate = launch.terminate
        return cls(text, child, folder, launch, output, mark if launch.terminate is None else None)

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        return self._launch.refused_hosts()

    @property
    def private_hosts(self) -> tuple[str, ...]:
        """Allowed hosts that it could not reach because they resolve to private addresses."""
        return self._launch.private_hosts()

    @property
    def done(self) -> bool:
        return self._work.done()

    @property
    def code(self) -> int:
        return self._child.code or 0

    def on_over(self, callback: Callable[[], None]) -> None:
        self._work.add_done_callback(lambda _task: callback())

    @property
    def broken(self) -> bool:
        """Whether a bug ended the watching task."""
        return self.done and (self._work.cancelled() or self._work.exception() is not None)

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether it has ended. Raises an exception of the watching task (a bug)."""
        if not self.done:
            await asyncio.wait({self._work}, timeout=seconds)
        if self.done:
            self._work.result()
        return self.done

    def terminate(self) -> None:
        """Ask it to stop, once. Synchronous, for abort callbacks."""
        if not self._child.asked_to_end:
            self._child.signal_group(signals.SIGTERM)

    async def stop(self, grace: float = GRACE) -> None:
        """Stop it: SIGTERM, then after `grace` SIGKILL. Output and exit code are available afterwards."""
        if not self.done:
            self.terminate()
            if self.mark is not None:
                # `timeout` and others have a group of their own, and the shell waits for them.
                await in_thread(terminate_outside, self.mark, self._child.pid)
            await self._child.end(grace)
            await asyncio.wait({self._work})

    async def aclose(self) -> None:
        """Kill it. Safe during a cancellation; does nothing after its end."""
        await cancel_and_wait([self._work])

    async def _until_over(self) -> None:
        pump = start_task(self._pump(), name="shell output")
        ended = False
        try:
            await self._child.wait()
            if not pump.done():
                await asyncio.wait({pump}, timeout=_DRAIN)
            # The remaining processes of a sandbox are the sandbox itself, which ends with its first process.
            self.left_running = self._launch.terminate is None and self._child.signal_group(0)
            if self._launch.terminate is None or not pump.done():
                await self._child.end()
            if self.mark is not None and await end_marked(self.mark):
                self.left_running = True
            ended = True
            if not pump.done():
                await asyncio.wait({pump}, timeout=_DRAIN)
        finally:
            try:
                await cancel_and_wait([pump])
            finally:
                await self._close(escaped=not ended)
        if not pump.cancelled():
            pump.result()
        await self.output.finish()

    async def _close(self, *, escaped: bool) -> None:
        self._limits.cancel()
        try:
            await self._child.aclose()
        finally:
            if escaped and self.mark is not None:
                kill_marked(self.mark)
            said = self._folder.read_now().decode("utf-8", errors="surrogateescape").split("\n")
            if self._launch.terminate is not None and _OTHERS in said:
                self.left_running = True
            self.folder = next((line for line in reversed(said) if line not in ("", _OTHERS)), "")
            self._folder.close()
            if self._launch.watch >= 0:
                asyncio.get_running_loop().remove_reader(self._launch.watch)
            # Without a sandbox there is nothing to check.
            unsandboxed = self._launch.terminate is None
            self.findings = self._launch.close() if unsandboxed else await in_thread(self._launch.close)
            self.stopped_for = self._launch.stopped_for()

    def _look(self) -> None:
        if self._launch.look() and not self.stopped_by_sandbox:
            self.stopped_by_sandbox = True
            # SIGKILL: a command that plants files gets no time to clean up.
            self._child.signal_group(signals.SIGKILL)

    async def _pump(self) -> None:
        waiting = b""
        try:
            while data := await self._child.output.read():
                waiting += data
                if not self._child.asked_to_end or len(waiting) > _MAX_WAITING:
                    data, waiting = waiting, b""
                    await self.output.add(data)
        finally:
            if waiting:
                await self.output.add(_SHELL_REPORT.sub(b"", waiting, count=1))


def private_hosts_note(hosts: Sequence[str]) -> str:
    """For the model: allowed hosts that the sandbox did not connect to because of their addresses."""
    named = ", ".join(plain_line(host, 200) for host in hosts[:_MAX_HOSTS])
    return (
        f"Sandbox: {named} {'lead' if len(hosts) > 1 else 'leads'} to a private address, which a Network rule for a "
        "name does not open. Only a rule for the address itself, Network(ADDRESS), lets a command connect to it"
    )


def describe_refused_hosts(hosts: Sequence[str]) -> str:
    """For the model: hosts that the sandbox refused, and the rule that would allow the first."""
    named = [plain_line(host, 200) for host in hosts[:_MAX_HOSTS]]
    return f"Sandbox: commands may not reach {', '.join(named)} without the rule Network({named[0]})"


def _script(descriptor: int, *, sandboxed: bool) -> str:
    """Shell script that runs its first argument and reports the final directory."""
    # In its own pid namespace a shell sees, besides itself and the first process, only processes that it left running.
    usual = f"${{{USUAL_PROCESSES}:-2}}"
    look = f"set -- /proc/[0-9]*; [ $# -le {usual} ] || echo {_OTHERS}; " if sandboxed else ""
    # Through /dev/fd because some shells support only descriptors below ten. A second call does nothing.
    tell = f"_agentcli_tell() {{ _agentcli_tell() {{ :; }}; {{ {look}pwd -P; }} >/dev/fd/{descriptor}; }}"
    # The final directory is reported at the end, and by a trap in case the end is not reached: a command may `exit` or
    # set its own trap. Everything before the command is on one line, so that the shell's messages count the command's
    # own lines. At the end the function is defined again, because a command can remove or replace it. None of this is
    # shown, not even by `set -x`. After a command with an unclosed quote, bash knows `{` again from the second line on.
    trap = "trap '{ _agentcli_tell || :; } 2>/dev/null' EXIT"
    # Asked to stop, the shell waits for its children, which are asked too and may have to clean up: they would not
    # outlive it in a sandbox. A command may set its own trap here as well.
    trap += "; trap '{ set +x; wait; } 2>/dev/null; exit 143' TERM"
    end = f'{{ set -- $?; {tell} || :; _agentcli_tell || :; exit "$1"; }} 2>/dev/null'
    return f'{tell}; {trap}; eval "$1"\n\n{end}'


def _launch(text: str, context: ToolContext, mark: str, descriptor: int) -> Launch:
    """How to start a command. Its shell reports the final directory to `descriptor`."""
    shell = find_program("bash", context.environ.get("PATH"), context.working_dirs)
    # If the project is /, every program is in a working directory; use the system's shell then.
    shell = shell or find_program("bash", "/bin:/usr/bin", ()) or "/bin/sh"
    own = dict(context.environ) if context.by_user else child_environment(context.environ, context.passed)
    environ = own if context.shells is None else marked(own, SESSION_VARIABLE, context.shells.mark)
    if context.grant.reads_only:
        environ |= harmless_git()
    environ |= {name: context.credentials[name] for name in context.grant.variables if name in context.credentials}
    script = _script(descriptor, sandboxed=context.launcher.name in SELF_CONTAINED)
    words = [shell, "-c", script, Path(shell).name, text]
    return context.launcher.launch(words, context.cwd, marked(environ, CALL_VARIABLE, mark), context.grant)
