"""A child process with everything it starts: in a session of its own, and ended as a whole group.

Its output comes through pipes of our own rather than asyncio's, because with those `wait()` may wait for a
grandchild that holds the pipe open. Whoever starts a `Child` must `aclose` it; after that nothing of the group
runs and no descriptor is open. A process that made a session of its own escapes this; see `shell/orphan_processes.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.core.aio import cancel_and_wait, wait_uncancelled
from agentcli.core.own_programs import start_program_async

CHUNK = 65_536
GRACE = 2.0
"""From SIGTERM to SIGKILL for the process itself."""
SHUTDOWN_GRACE = 0.5
"""The same when agentcli itself was told to end: whoever did that does not wait long."""
REST_GRACE = 0.2
"""For the rest of its group once it has ended."""
_POLL = 0.01


class Pipe:
    """The reading end of a pipe on the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    async def read(self) -> bytes:
        """What is there, waiting until something is; empty at the end."""
        # A pipe that is never empty would otherwise keep everything else on the loop from running.
        await asyncio.sleep(0)
        while True:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await self._readable()

    def read_now(self) -> bytes:
        """What is there, without waiting."""
        try:
            return os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return b""

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Child:
    def __init__(self, process: asyncio.subprocess.Process, output: Pipe, errors: Pipe | None) -> None:
        self.terminate: Callable[[], bool] | None = None
        """`Launch.terminate`, where there is one."""
        self._process = process
        self.output = output
        self.errors = errors
        self._exit = asyncio.get_running_loop().create_task(process.wait(), name=f"wait for {process.pid}")

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        separate_errors: bool = False,
        pass_descriptors: tuple[int, ...] = (),
    ) -> Child:
        """Raises OSError when the program or the folder is not there."""
        reading, writing = os.pipe()
        error_reading, error_writing = os.pipe() if separate_errors else (-1, writing)
        try:
            process = await start_program_async(
                arguments,
                cwd=cwd,
                environ=environ,
                stdout=writing,
                stderr=error_writing,
                pass_descriptors=pass_descriptors,
            )
        except BaseException:
            os.close(reading)
            if separate_errors:
                os.close(error_reading)
            raise
        finally:
            os.close(writing)
            if separate_errors:
                os.close(error_writing)
        return cls(process, Pipe(reading), Pipe(error_reading) if separate_errors else None)

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether the process itself has ended; its descendants and the pipe do not count."""
        done, _pending = await asyncio.wait({self._exit}, timeout=seconds)
        return bool(done)

    def signal_group(self, number: int) -> bool:
        """Send a signal to all of the group; false if none of it is left. Synchronous, for use in abort callbacks."""
        if number == signal.SIGTERM and self.terminate is not None:
            if self.terminate():
                return True
            # A sandbox that is only being set up would lose its first process and leave the rest.
            number = signal.SIGKILL
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Part of the group belongs to somebody else now; the rest got the signal.
            return True
        return True

    async def end(self, grace: float = GRACE) -> bool:
        """SIGTERM to the group, then SIGKILL: after `grace` for the process, soon after its end for the rest.

        True if there was anything left to end. The output read so far and what is in the pipe stay readable.
        """
        if not self.signal_group(signal.SIGTERM):
            await asyncio.wait({self._exit})
            return False
        # The rest of a sandbox dies with its first process, and stays in the group until somebody else reaps it.
        if await self.wait(grace) and self.terminate is None:
            await self._rest_gone(REST_GRACE)
        self.signal_group(signal.SIGKILL)
        await asyncio.wait({self._exit})
        return True

    async def _rest_gone(self, seconds: float) -> None:
        # There is no event for "the group is empty"; a few looks at it cost next to nothing.
        for _look in range(int(seconds / _POLL)):
            if not self.signal_group(0):
                return
            await asyncio.sleep(_POLL)

    async def aclose(self) -> None:
        """Kill what is left, reap, close. Also right in the middle of a cancellation."""
        self.signal_group(signal.SIGKILL)
        try:
            if not self._exit.done():
                # SIGKILL cannot be ignored: this ends by itself, so it is waited for even when cancelled.
                await wait_uncancelled([self._exit])
        finally:
            await cancel_and_wait([self._exit])
            self.output.close()
            if self.errors is not None:
                self.errors.close()


def exit_text(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended by signal {-code}"
