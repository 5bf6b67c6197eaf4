"""Terminal output in a separate thread, so that a slow terminal never blocks the event loop.

Short output that the terminal accepts without waiting is written by the caller: waking the thread costs more.

Everything goes out in order. While the terminal is behind, no frames are made for it: `takes_frames` says so, and
`ready` is called when it has caught up. A lost terminal is reported once, and nothing more is written to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

MAX_BACKLOG = 256 * 1024
MAX_BACKLOG_SECONDS = 0.25
"""A frame that waits longer makes the writer reject later ones: on a slow terminal old frames are useless."""
MAX_WAITING = 8 * 1024 * 1024
PIECE = 8192
"""Maximum bytes per write. The writer can be silenced between two writes."""


def open_unblocked(fd: int) -> int:
    """Open a terminal a second time, for non-blocking writes; -1 if that is not possible.

    Making `fd` itself non-blocking would also affect the shell and all its children.
    """
    try:
        again = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return -1
    if os.path.sameopenfile(fd, again):
        return again
    os.close(again)  # In a container the name may belong to another terminal.
    return -1


class TerminalWriter(threading.Thread):
    def __init__(
        self,
        fd: int,
        *,
        ready: Callable[[], object],
        gone: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        unblocked: int = -1,
    ) -> None:
        """`ready`: called when frames were refused and the terminal accepts one again. `gone`: called when nothing can
        be written any more. Both run in the writer's thread. `unblocked`: the same terminal, opened
        non-blocking; closed with the writer. Without it the thread writes everything."""
        super().__init__(daemon=True, name="terminal-output")
        self._fd = fd
        self._unblocked = unblocked
        self._putting = False
        self._ready = ready
        self._gone = gone
        self._clock = clock
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._waiting = 0
        self._behind_since: float | None = None
        self._refused = False
        self._stopping = False
        self._silent = False

    def takes_frames(self) -> bool:
        """Whether a frame would be written soon. If not, `ready` is called later."""
        with self._changed:
            if self._is_behind():
                self._refused = True
                return False
            return not self._silent

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._silent or self._waiting > MAX_WAITING:
                return
            self._queue.append(data)
            self._waiting += len(data)
            if self._behind_since is None:
                self._behind_since = self._clock()
            if not self._write_at_once():
                self._changed.notify()

    def _write_at_once(self) -> bool:
        """Write the queue in the calling thread, with the lock held. Return False if anything is left for the writer's
        thread, which also handles errors of the terminal."""
        if self._unblocked < 0 or self._putting or self._refused or self._waiting > PIECE:
            return False
        data = b"".join(self._queue)
        written = 0
        with contextlib.suppress(OSError):
            written = os.write(self._unblocked, data)
        self._queue.clear()
        self._waiting -= written
        if written < len(data):
            self._queue.append(data[written:])
            return False
        self._behind_since = None
        return True

    def silence(self) -> None:
        """Write nothing from now on, not even queued output. Takes no lock: called from signal handlers."""
        self._silent = True

    def stop(self, seconds: float) -> bool:
        """Write the queue, then end. Return False if the terminal did not accept it in time; it is discarded then."""
        with self._changed:
            self._stopping = True
            if self._unblocked >= 0:
                os.close(self._unblocked)
                self._unblocked = -1
            self._changed.notify()
        if self.is_alive():
            self.join(seconds)
        if self.is_alive():
            self._silent = True
            return False
        return True

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                data = b"".join(self._queue)
                self._queue.clear()
                stopping = self._stopping
                self._putting = True
            if not self._put(data):
                return
            with self._changed:
                self._putting = False
                self._waiting -= len(data)
                self._behind_since = self._clock() if self._queue else None
                is_ready = self._refused and not self._queue
                self._refused &= not is_ready
            if is_ready:
                self._ready()
            if stopping:
                return

    def _is_behind(self) -> bool:
        if self._behind_since is None:
            return False
        return self._waiting > MAX_BACKLOG or self._clock() - self._behind_since > MAX_BACKLOG_SECONDS

    def _put(self, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            if self._silent:
                return False
            try:
                view = view[os.write(self._fd, view[:PIECE]) :]
            except BlockingIOError:
                # A child process made the terminal non-blocking, which is shared with us.
                with contextlib.suppress(OSError, ValueError):
                    select.select([], [self._fd], [], 0.1)
            except OSError as error:
                self._silent = True
                if error.errno != errno.EBADF:
                    self._gone()
                return False
        return True
