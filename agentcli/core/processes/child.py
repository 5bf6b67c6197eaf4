"""A child process and its descendants, in a new session and stopped as a process group.

The output uses its own pipes, not asyncio's: with those `wait()` may wait for a grandchild that holds the pipe open.
The end of the process is detected through a descriptor on the event loop; asyncio would need a thread per process.
Always call `aclose` on a `Child`: afterwards no process of the group runs and no descriptor is open. A process that
created its own session escapes this; see `orphan_processes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.core.aio import wait_uncancelled
from agentcli.core.processes.own_programs import DEVNULL, StartedProgram, start_program

CHUNK = 65_536
GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL for the process itself."""
SHUTDOWN_GRACE = 0.5
"""Like `GRACE`, while agentcli itself is being terminated and has little time."""
REST_GRACE = 0.2
"""Seconds for the rest of the group after the process has ended."""
_POLL = 0.01


class Pipe:
    """The reading end of a pipe on the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    async def read(self) -> bytes:
        """Wait for data and return it; empty at the end."""
        # Yield first: reading a pipe that is never empty would block everything else on the loop.
        await asyncio.sleep(0)
        while True:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await self._readable()

    def read_now(self) -> bytes:
        """Available data, without waiting."""
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
    def __init__(self, process: StartedProgram, output: Pipe) -> None:
        self.terminate: Callable[[], bool] | None = None
        """`Launch.terminate`, if the launch has one."""
        self._process = process
        self.output = output
        self._exit = _exit_of(process)
        self.asked_to_end = False
        """Whether the group got SIGTERM."""

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        stdin: int = DEVNULL,
        stderr: int | None = None,
        pass_descriptors: tuple[int, ...] = (),
    ) -> Child:
        """Start a process. Call it on the event loop. Raises OSError if the program or the folder does not exist.

        `stderr`: a descriptor for standard error; None: it goes to the output.
        """
        reading, writing = os.pipe()
        try:
            process = start_program(
                arguments,
                cwd=cwd,
                environ=environ,
                stdin=stdin,
                stdout=writing,
                stderr=writing if stderr is None else stderr,
                pass_descriptors=pass_descriptors,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return cls(process, Pipe(reading))

    @property
    def pid(self) -> int:
        """Its number, which is that of its process group too."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the process itself, ignoring its descendants and the pipe; return whether it has ended."""
        done, _pending = await asyncio.wait({self._exit}, timeout=seconds)
        return bool(done)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the group; False if the group is empty. Synchronous, for abort callbacks."""
        if number == signal.SIGTERM and self.terminate is not None:
            if self.terminate():
                self.asked_to_end = True
                return True
            # A sandbox that is starting would lose its first process and leave the rest.
            number = signal.SIGKILL
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Part of the group belongs to another user now; the rest got the signal.
            pass
        self.asked_to_end |= number == signal.SIGTERM
        return True

    async def end(self, grace: float = GRACE) -> bool:
        """Send SIGTERM to the group, then SIGKILL: after `grace` to the process, soon after its end to the rest.

        A group that got SIGTERM already does not get a second one, which would interrupt its cleanup. Returns whether
        anything was left to stop. Output so far and data in the pipe stay readable.
        """
        if not self.signal_group(0 if self.asked_to_end else signal.SIGTERM):
            await asyncio.wait({self._exit})
            return False
        # The rest of a sandbox dies with its first process, and stays in the group until it is reaped.
        if await self.wait(grace) and self.terminate is None:
            await self._rest_gone(REST_GRACE)
        self.signal_group(signal.SIGKILL)
        await asyncio.wait({self._exit})
        return True

    async def _rest_gone(self, seconds: float) -> None:
        # There is no event for an empty group, so poll; this is cheap.
        for _look in range(int(seconds / _POLL)):
            if not self.signal_group(0):
                return
            await asyncio.sleep(_POLL)

    async def aclose(self) -> None:
        """Kill the group, reap the process and close descriptors. Safe during a cancellation."""
        self.signal_group(signal.SIGKILL)
        try:
            # SIGKILL cannot be ignored, so this ends soon: wait even if cancelled.
            await wait_uncancelled([self._exit])
        finally:
            self.output.close()


def _exit_of(process: StartedProgram) -> asyncio.Future[None]:
    """A future that is done when the process has ended and is reaped."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def reap() -> None:
        process.wait()
        ended.set_result(None)

    def on_readable(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        reap()

    def wait_in_thread() -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(reap)

    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        # Not Linux, or not allowed in this container.
        threading.Thread(target=wait_in_thread, name=f"wait for {process.pid}", daemon=True).start()
    else:
        loop.add_reader(descriptor, on_readable, descriptor)
    return ended


def exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"ended by signal {-code}"
