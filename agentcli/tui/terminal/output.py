"""What is written to the terminal: frames in a separate thread, and title, progress, notifications and clipboard.

A slow terminal never blocks the event loop. Short output that it accepts without waiting is written by the caller:
waking the thread took 0.3 ms of a key, and 0.8 ms while a reply streams. Everything goes out in order. While the
terminal is behind, no frames are made for it: `takes_frames` says so, and `ready` is called when it has caught up. A
lost terminal is reported once, and nothing more is written to it.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.clipboard import copy, wrap_for_multiplexer

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
            since = self._behind_since
            is_late = since is not None and self._clock() - since > MAX_BACKLOG_SECONDS
            is_behind = is_late or (since is not None and self._waiting > MAX_BACKLOG)
            self._refused |= is_behind
            return not (is_behind or self._silent)

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


MAX_TITLE = 120
MAX_NOTICE = 240

_BELL = "\x07"


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal) -> str:
    return f"\x1b]2;{plain_line(text, MAX_TITLE)}{_BELL}" if terminal.has_title else ""


def progress(terminal: Terminal, *, busy: bool) -> str:
    """Progress in the taskbar or tab; "" if the terminal does not support it."""
    return f"\x1b]9;4;{3 if busy else 0};0{_BELL}" if terminal.has_progress else ""


def notification(terminal: Terminal, heading: str, body: str) -> str:
    """Desktop notification if the terminal supports it, otherwise the bell."""
    if terminal.name == "dumb":
        return _BELL
    # A semicolon separates fields in most of these sequences.
    heading = plain_line(heading, MAX_NOTICE).replace(";", ",")
    body = plain_line(body, MAX_NOTICE).replace(";", ",")
    if terminal.name == "kitty":
        encoded = [base64.b64encode(text.encode("utf-8", "replace")).decode() for text in (heading, body)]
        sequence = f"\x1b]99;i=agentcli:e=1:d=0;{encoded[0]}\x1b\\\x1b]99;i=agentcli:e=1:d=1:p=body;{encoded[1]}\x1b\\"
    elif terminal.name in ("vte", "foot", "ghostty"):
        sequence = f"\x1b]777;notify;{heading};{body}{_BELL}"
    elif terminal.name in ("iterm", "wezterm"):
        sequence = f"\x1b]9;{heading}: {body}{_BELL}"
    else:
        return _BELL
    if terminal.tmux or terminal.screen:
        # They show the bell as an alert of the window, and may not pass the sequence through.
        return wrap_for_multiplexer(sequence, terminal) + _BELL
    return sequence


class Surroundings:
    def __init__(self, terminal: Terminal, write: Callable[[str], None], folder: Path, notifications: str) -> None:
        self.terminal = terminal
        self._write = write
        self._folder = folder
        self.notifications = notifications
        """Value of the setting."""
        self._title = ""

    def begin(self, restores: Callable[[str], None]) -> None:
        """`restores` registers the sequences to write when the app ends, however it ends."""
        self._write(push_title(self.terminal))
        restores(progress(self.terminal, busy=False) + pop_title(self.terminal))
        self.show_work("")

    def show_work(self, state: str) -> None:
        """Show the state of the work, in a word or two; "" when idle."""
        shown = f"{state or 'agentcli'} · {self._folder.name}"
        if shown != self._title:
            self._title = shown
            self._write(title(shown, self.terminal))
            self._write(progress(self.terminal, busy=bool(state)))

    def notify(self, text: str) -> None:
        if self.notifications != "off":
            bell = self.notifications == "bell"
            self._write("\a" if bell else notification(self.terminal, "agentcli", plain_line(text)))

    async def copy(self, text: str) -> str:
        """Copy text. Return a sentence that says how, or why not."""
        return await copy(text, self.terminal, self._write, (self._folder,))
