"""One running shell command: its processes, its output, where it ended. The same in front and in the background.

Owns the processes from start to end: whatever happens, after `stop` or `aclose` nothing of it runs.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from agentcli.core.aio import cancel_and_wait, in_thread
from agentcli.core.launch import Finding, Launch
from agentcli.core.plaintext import plain_line
from agentcli.core.programs import find_program
from agentcli.tools.base import ToolContext
from agentcli.tools.process import GRACE, Child, Pipe
from agentcli.tools.shell.environment import child_environment, harmless_git
from agentcli.tools.shell.orphan_processes import (
    CALL_VARIABLE,
    SESSION_VARIABLE,
    end_marked,
    kill_marked,
    marked,
    new_mark,
)
from agentcli.tools.shell.output import CollectedOutput

_DRAIN = 0.2
"""How long output may still come after the command has ended: somebody else may hold the pipe for ever."""
_OTHERS = "//others"
"""What a command in a sandbox tells when it leaves something running; no path looks like this."""
USUAL_PROCESSES = "AGENTCLI_PROCESSES"
"""The variable by which a launcher says how many processes a command's sandbox has when it leaves none running."""
_MOST_HOSTS = 5
SELF_CONTAINED = ("bubblewrap",)
"""Launchers in whose sandboxes nothing outlives the first process."""


class Ending(Enum):
    EXITED = "exited"
    TIMED_OUT = "timed out"
    ABORTED = "aborted"


class ShellCommand:
    def __init__(self, text: str, child: Child, folder: Pipe, launch: Launch, output: CollectedOutput) -> None:
        self.text = text
        self.output = output
        self.left_running = False
        """Something of it was still there when it had ended, and was ended too."""
        self.folder = ""
        """The working directory that it ended in, as it said itself."""
        self.stopped_for = ""
        """A sentence that names the sandbox's limit for which it was stopped."""
        self.mark: str | None = None
        self.findings: tuple[Finding, ...] = ()
        """What the sandbox found and undid; complete when the command is over."""
        self.stopped_by_sandbox = False
        self._child = child
        self._folder = folder
        self._launch = launch
        if launch.watch >= 0:
            asyncio.get_running_loop().add_reader(launch.watch, self._look)
        self._work = asyncio.get_running_loop().create_task(self._until_over(), name="shell command")

    @classmethod
    async def start(cls, text: str, context: ToolContext, output: CollectedOutput) -> ShellCommand:
        """Raises OSError when there is no shell or no folder."""
        mark = new_mark()
        reading, writing = os.pipe()
        folder = Pipe(reading)
        launch: Launch | None = None
        try:
            try:
                launch = _launch(text, context, mark, writing)
                if launch.terminate is None and context.shells is not None:
                    await context.shells.watch()
                child = await Child.start(
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
        command = cls(text, child, folder, launch, output)
        if launch.terminate is None:
            command.mark = mark
        return command

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """What it tried to reach through the sandbox's proxy and was not allowed to."""
        return self._launch.refused_hosts()

    @property
    def private_hosts(self) -> tuple[str, ...]:
        """Allowed hosts that it did not reach because their names lead to private addresses."""
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
        """A bug in here ended the watching of it."""
        return self.done and (self._work.cancelled() or self._work.exception() is not None)

    async def wait(self, seconds: float) -> bool:
        """Whether it is over, after at most so long. A bug in here comes out here."""
        done, _pending = await asyncio.wait({self._work}, timeout=seconds)
        if done:
            self._work.result()
        return bool(done)

    def terminate(self) -> None:
        """Ask it to end. Synchronous, for use in abort callbacks."""
        self._child.signal_group(signals.SIGTERM)

    async def stop(self, grace: float = GRACE) -> None:
        """End it: politely, then after `grace` by force. It has its output and its exit code after."""
        if not self.done:
            await self._child.end(grace)
            await asyncio.wait({self._work})

    async def aclose(self) -> None:
        """End it at once. Also right in the middle of a cancellation; does nothing when it is over."""
        await cancel_and_wait([self._work])

    async def _until_over(self) -> None:
        pump = asyncio.get_running_loop().create_task(self._pump(), name="shell output")
        ended = False
        try:
            await self._child.wait()
            await asyncio.wait({pump}, timeout=_DRAIN)
            # What is left of a sandbox for a moment is the sandbox itself.
            self.left_running = self._launch.terminate is None and self._child.signal_group(0)
            await self._child.end()
            if self.mark is not None and await end_marked(self.mark):
                self.left_running = True
            ended = True
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
            bare = self._launch.terminate is None
            self.findings = self._launch.close() if bare else await in_thread(self._launch.close)
            self.stopped_for = self._launch.stopped_for()

    def _look(self) -> None:
        if self._launch.look() and not self.stopped_by_sandbox:
            self.stopped_by_sandbox = True
            # By force: a command that plants files is not asked to clean up.
            self._child.signal_group(signals.SIGKILL)

    async def _pump(self) -> None:
        while data := await self._child.output.read():
            await self.output.add(data)


def private_hosts_note(hosts: Sequence[str]) -> str:
    """For the model: the allowed hosts that the sandbox did not connect to because of their addresses."""
    named = ", ".join(plain_line(host, 200) for host in hosts[:_MOST_HOSTS])
    return (
        f"Sandbox: {named} {'lead' if len(hosts) > 1 else 'leads'} to a private address, which a Network rule for a "
        "name does not open. Only a rule for the address itself, Network(ADDRESS), lets a command connect to it"
    )


def refused_hosts_note(hosts: Sequence[str]) -> str:
    """For the model: the hosts that the sandbox kept a command from, and the rule that would allow the first."""
    named = [plain_line(host, 200) for host in hosts[:_MOST_HOSTS]]
    return f"Sandbox: commands may not reach {', '.join(named)} without the rule Network({named[0]})"


def _launch(text: str, context: ToolContext, mark: str, descriptor: int) -> Launch:
    shell = find_program("bash", context.environ.get("PATH"), context.working_dirs)
    # For whoever works in / every program lies in a working directory; the system's own shell must do then.
    shell = shell or find_program("bash", "/bin:/usr/bin", ()) or "/bin/sh"
    # Where a `cd` has led is told at the end, and by a trap for when that is not reached: a command may `exit`, or set
    # a trap of its own. Through /dev/fd because some shells know only descriptors below ten.
    tell = f"pwd -P >/dev/fd/{descriptor}"
    look = ""
    if context.launcher.name in SELF_CONTAINED:
        # In a pid namespace of its own a shell sees, beside itself and the first process, only what it left running.
        usual = f"${{{USUAL_PROCESSES}:-2}}"
        look = f"_agentcli_look() {{ [ $# -le {usual} ] || echo {_OTHERS} >/dev/fd/{descriptor}; }}; "
        tell = f"_agentcli_look /proc/[0-9]*; {tell}"
    # All of it before the command is one line: the shell's messages then count the command's own lines.
    script = f'{look}trap "{tell}" EXIT; eval "$1"\nset -- $?\n{tell}\nexit "$1"'
    own = dict(context.environ) if context.by_person else child_environment(context.environ, context.passed)
    environ = marked(own, CALL_VARIABLE, mark)
    if context.shells is not None:
        environ = marked(environ, SESSION_VARIABLE, context.shells.mark)
    if context.grant.reads_only:
        environ |= harmless_git()
    environ |= {name: context.credentials[name] for name in context.grant.variables if name in context.credentials}
    words = [shell, "-c", script, Path(shell).name, text]
    return context.launcher.launch(words, context.cwd, environ, context.grant)
