"""A sandboxed shell that is started ahead and waits for the next command, to save its start-up time.

At most one per session, starting after its first sandboxed command has ended. The launcher decides whether a sandbox
can be used for a command (`Launch.adopt`); one that cannot is ended, and so is one that has been idle for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.core.aio import start_task
from agentcli.core.frozen import frozen
from agentcli.core.processes.launch import Launch, SpareLaunch
from agentcli.tools.process import Child, Pipe

START_SECONDS = 0.02
"""Delay after the end of a command. By then the next request has been sent, even from the app on a busy machine;
starting earlier would delay it. No model answers in the remaining time that the start takes."""
IDLE_SECONDS = 60.0
READY_SECONDS = 1.0
"""Maximum wait for a sandbox that is still starting: it is ready before a new one would be."""
MAX_TEXT_LENGTH = 1_000
"""In characters: the shell reads its command byte by byte."""
_VARIABLE = "_agentcli_command"


@frozen
class ShellSetup:
    """What two commands must have in common, besides the launch, to share a shell."""

    shell: str
    environ: Mapping[str, str]
    cwd: Path
    words: Callable[[int, str], Sequence[str]]
    """Makes the arguments from the descriptor that reports the final directory and the beginning of the script."""


def waiting_script(descriptor: int, report: int) -> str:
    """The beginning of a script that reports readiness, then reads its command and makes it the first argument."""
    read = f'IFS= read -r -d "" -u {descriptor} {_VARIABLE} || exit 1; exec {descriptor}<&-; SECONDS=0'
    return f'echo >/dev/fd/{report}; {read}; set -- "${_VARIABLE}"; unset {_VARIABLE}; '


class SpareShell:
    def __init__(self, setup: ShellSetup, launch: SpareLaunch, child: Child, folder: Pipe, feed: int) -> None:
        self.child = child
        self.folder = folder
        """Pipe that reports readiness with a line, and later the final directory."""
        self._setup = setup
        self._launch = launch
        self._feed = feed

    @classmethod
    async def start(cls, setup: ShellSetup, finished: Launch) -> SpareShell | None:
        """Start a spare like the launch that has finished. None if the launcher refuses. Raises OSError."""
        reading, writing = os.pipe()
        text_reading, feed = os.pipe()
        launch: SpareLaunch | None = None
        child: Child | None = None
        try:
            launch = finished.spare(setup.words(writing, waiting_script(text_reading, writing)))
            if launch is not None:
                passed = (writing, text_reading, *launch.pass_descriptors)
                child = Child.start(launch.arguments, cwd=setup.cwd, environ=launch.environ, pass_descriptors=passed)
        finally:
            os.close(writing)
            os.close(text_reading)
            if child is None:
                os.close(reading)
                os.close(feed)
                if launch is not None:
                    launch.close()
        return None if child is None or launch is None else cls(setup, launch, child, Pipe(reading), feed)

    async def give(self, text: str, setup: ShellSetup, launch: Launch) -> bool:
        """Run the command in it. False: the launch needs its own sandbox, and this one must be closed."""
        if not text.isascii() or len(text) > MAX_TEXT_LENGTH or self.child.code is not None:
            return False
        if (setup.shell, setup.cwd, setup.environ) != (self._setup.shell, self._setup.cwd, self._setup.environ):
            return False
        if not await self._is_ready() or not self._is_waiting or not launch.adopt(self._launch):
            return False
        os.write(self._feed, text.encode() + b"\0")
        os.close(self._feed)
        self._feed = -1
        return True

    async def _is_ready(self) -> bool:
        """Wait until it has reported that it is ready; False if it does not."""
        if self.folder.read_now():
            return True
        try:
            async with asyncio.timeout(READY_SECONDS):
                return bool(await self.folder.read())
        except TimeoutError:
            return False

    @property
    def _is_waiting(self) -> bool:
        """Whether it can still read a command: the event loop may not have noticed yet that it died."""
        errors = select.poll()
        errors.register(self._feed, 0)
        return not errors.poll(0)

    async def aclose(self) -> None:
        """End it. Safe during a cancellation."""
        try:
            await self.child.aclose()
        finally:
            self.folder.close()
            if self._feed >= 0:
                os.close(self._feed)
            self._launch.close()


class SpareShells:
    """Keeps the spare of a session. Call `aclose` at the end."""

    def __init__(self) -> None:
        self._spare: SpareShell | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._closed = False

    def prepare(self, setup: ShellSetup, finished: Launch) -> None:
        """Start a spare soon, like the launch that has just finished."""
        if not self._closed and self._spare is None and self._work is None:
            self._after(START_SECONDS, lambda: self._do(self._start(setup, finished)))

    async def take(self) -> SpareShell | None:
        """Take the spare; the caller then owns it."""
        self._stop_timer()
        if self._work is not None:
            await asyncio.wait({self._work})
            self._stop_timer()
        spare, self._spare = self._spare, None
        return spare

    async def aclose(self) -> None:
        self._closed = True
        spare = await self.take()
        if spare is not None:
            await spare.aclose()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            self._timer = None
            action()

        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = start_task(work, name="spare shell")
        self._work.add_done_callback(self._done)

    def _done(self, _task: asyncio.Task[None]) -> None:
        self._work = None

    async def _start(self, setup: ShellSetup, finished: Launch) -> None:
        # Without a spare, the next command starts its own sandbox, and reports why that fails.
        with contextlib.suppress(OSError):
            self._spare = await SpareShell.start(setup, finished)
        if self._spare is not None:
            self._after(IDLE_SECONDS, lambda: self._do(self._end()))

    async def _end(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.aclose()
