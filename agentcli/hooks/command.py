"""Run the shell command of a hook: data on its standard input, limited output, a timeout for its process group.

Standard input is a file that is complete before the command starts, so that a hook need not read it. The output uses
pipes of our own: with those of asyncio, `wait` would wait for a background process that holds them open. When the
command has ended, the rest of its process group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from agentcli.core.aio import start_task, wait_uncancelled
from agentcli.core.processes.own_programs import kill_group, shell_command, signal_group, start_program_async
from agentcli.hooks.answers import HookOutput

MOST_OUTPUT = 1024 * 1024
"""Maximum bytes kept of standard output, and of standard error; the rest is read and dropped."""
_CHUNK = 64 * 1024
TERM_SECONDS = 1.0
"""Seconds between SIGTERM at the timeout and SIGKILL."""
_DRAIN_SECONDS = 0.2
"""Seconds to wait for the last output: a process that left the group may hold the pipe open for longer."""


async def run_command(command: str, data: bytes, cwd: Path, environ: Mapping[str, str], seconds: float) -> HookOutput:
    """Run a command. Raises only for cancellation, which kills the process group at once."""
    try:
        stdin, stdout, stderr = _streams(data)
    except OSError as error:
        return HookOutput("crashed", None, detail=f"it did not start: {error}")
    try:
        process = await start_program_async(
            shell_command(command),
            cwd=cwd,
            environ=environ,
            stdin=stdin,
            stdout=stdout.writing,
            stderr=stderr.writing,
        )
    except (OSError, ValueError) as error:
        stdout.close()
        stderr.close()
        return HookOutput("crashed", None, detail=f"it did not start: {error}")
    except BaseException:
        stdout.close()
        stderr.close()
        raise
    finally:
        os.close(stdin)
        stdout.close_writing()
        stderr.close_writing()
    try:
        timed_out = await _ended(process, seconds)
        await asyncio.wait([stdout.done, stderr.done], timeout=_DRAIN_SECONDS)
    finally:
        stdout.close()
        stderr.close()
    if timed_out:
        detail = f"it took longer than {seconds:g} s and was stopped"
        return HookOutput("timed_out", None, stdout.text, stderr.text, detail=detail)
    code = process.returncode
    if code is not None and code < 0:
        return HookOutput("crashed", code, stdout.text, stderr.text, detail=f"it was ended by {_signal_name(-code)}")
    return HookOutput("exited", code, stdout.text, stderr.text)


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the process and kill the rest of its group; returns whether it timed out."""
    exited = start_task(process.wait())
    timed_out = False
    try:
        done, _pending = await asyncio.wait({exited}, timeout=seconds)
        if not done:
            timed_out = True
            signal_group(process.pid, signal.SIGTERM)
            await asyncio.wait({exited}, timeout=TERM_SECONDS)
    finally:
        kill_group(process.pid)
        # SIGKILL cannot be ignored, so this ends soon.
        await wait_uncancelled([exited])
    return timed_out


class _Collected:
    """Reads a pipe to its end and keeps the beginning of the data."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._reading, self._read)

    @property
    def text(self) -> str:
        return bytes(self._data).decode("utf-8", "replace")

    def close_writing(self) -> None:
        os.close(self.writing)

    def close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.done.cancel()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self._reading, _CHUNK)
            if (room := MOST_OUTPUT - len(self._data)) > 0:
                self._data += chunk[:room]
            if not chunk:
                self._loop.remove_reader(self._reading)
                if not self.done.done():
                    self.done.set_result(None)


def _streams(data: bytes) -> tuple[int, _Collected, _Collected]:
    """Standard input, output and error of a command. Raises OSError and leaves nothing open then."""
    with ExitStack() as opened:
        stdin = _input(data)
        opened.callback(os.close, stdin)
        collected = []
        for _stream in range(2):
            collected.append(one := _Collected())
            opened.callback(one.close)
            opened.callback(one.close_writing)
        opened.pop_all()
    return stdin, collected[0], collected[1]


def _input(data: bytes) -> int:
    """A descriptor of an anonymous file with this content, positioned at its start."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hook-input", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
