"""Terminate and await the processes of one sandbox, from outside.

Bubblewrap writes the pid of the first process of the new pid namespace into a pipe. When that process has ended, the
kernel has ended all others of the namespace, regardless of their sessions and parents.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
from pathlib import Path

MAX_WAIT_SECONDS = 1.0
_MAX_PROCESSES = 10_000


class SandboxProcesses:
    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe()
        os.set_blocking(self._reading, False)
        self._written = b""
        """What bubblewrap has written so far: it writes one JSON object in several pieces."""
        self._first: int | None = None
        self._guard = threading.Lock()

    def first_process(self) -> int | None:
        """The first process of the sandbox; None before it starts."""
        with self._guard:
            if self._first is None and self._reading >= 0:
                with contextlib.suppress(OSError):
                    self._written += os.read(self._reading, 4096)
                with contextlib.suppress(ValueError, KeyError):
                    self._first = int(json.loads(self._written)["child-pid"])
            return self._first

    def terminate(self) -> bool:
        """Send SIGTERM to all processes inside except bubblewrap, whose end would kill them at once.

        Returns False if none has started yet. Synchronous, for use in abort callbacks.
        """
        first = self.first_process()
        if first is None:
            return False
        reached = False
        waiting = _children(first)
        for _process in range(_MAX_PROCESSES):
            if not waiting:
                break
            process = waiting.pop()
            waiting += _children(process)
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGTERM)
                reached = True
        return reached

    def wait_until_gone(self) -> None:
        """Wait for all processes after bubblewrap has ended: the rest is being killed, but could still write for a
        moment."""
        first = self.first_process()
        if first is None:
            return
        with contextlib.suppress(OSError, AttributeError):  # ended already, or no such call on this system
            descriptor = os.pidfd_open(first)
            try:
                ended = select.poll()  # unlike `select.select`, accepts descriptors from 1024 on
                ended.register(descriptor, select.POLLIN)
                ended.poll(MAX_WAIT_SECONDS * 1000)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        with self._guard:
            for descriptor in (self._reading, self.descriptor):
                if descriptor >= 0:
                    os.close(descriptor)
            self._reading = self.descriptor = -1


def _children(process: int) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(text) for text in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []
