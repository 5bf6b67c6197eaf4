"""The three standard streams as file descriptors, written without blocking the event loop.

If the reader of the output is slow, writing waits, and with it the agent loop (back-pressure), while signals and
standard input are still served. If it has closed the stream, `OutputLost` ends the run. Descriptors are never switched
to non-blocking mode: they are shared with the parent process.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
import sys
from collections.abc import Callable

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_text, spell_hidden


@frozen
class Streams:
    stdin: int | None = 0
    """File descriptor; None if standard input is closed."""
    stdout: int = 1
    stderr: int = 2


class OutputLost(Exception):
    """Standard output can no longer be written. `quiet` if its reader just closed it, which is not an error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"Cannot write to standard output: {error.strerror}.")
        self.quiet = error.errno in (errno.EPIPE, errno.ECONNRESET)


def is_terminal(descriptor: int | None) -> bool:
    try:
        return descriptor is not None and os.isatty(descriptor)
    except OSError:
        return False


def complain(descriptor: int, text: str) -> None:
    """Print one message on standard error; failures are ignored."""
    data = f"{spell_hidden(plain_text(text))}\n".encode(errors="replace")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return


def watch_reader(descriptor: int, left: Callable[[], None]) -> Callable[[], None]:
    """Call `left` when the reader of a pipe closes it, even while nothing is written; returns a function that stops
    watching.

    Otherwise the run would continue until its next output, which may take a long command. Works only if the kernel
    reports it (Linux, pipes); elsewhere the next write notices.
    """
    loop = asyncio.get_running_loop()

    def unwatch() -> None:
        loop.remove_reader(descriptor)

    def woken() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)
        unwatch()
        if poll.poll(0):
            left()

    try:
        if sys.platform != "linux" or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return lambda: None
        loop.add_reader(descriptor, woken)
    except OSError:
        return lambda: None
    return unwatch


class StreamWriter:
    """Writes whole pieces in order, also from several tasks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = asyncio.Lock()
        try:
            self._blocks = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        except OSError as error:
            raise OutputLost(error) from None

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises `OutputLost`."""
        async with self._turn:
            rest = memoryview(data)
            while rest:
                if self._blocks and not self._ready():
                    await self._wait()
                # A ready descriptor accepts this much without blocking.
                piece = rest[: select.PIPE_BUF] if self._blocks else rest
                try:
                    rest = rest[os.write(self._descriptor, piece) :]
                except BlockingIOError:
                    await self._wait()
                except OSError as error:
                    raise OutputLost(error) from None

    def _ready(self) -> bool:
        return bool(select.select([], [self._descriptor], [], 0)[1])

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_writer(self._descriptor, ready.set)
        except PermissionError:
            # Some devices cannot be polled; they do not block either.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)
