"""Restores the terminal with direct writes, whatever else has failed. Standard library only.

Called when the process is about to end: at exit, after an uncaught exception, from signal handlers. It may interrupt
any code, so it takes no locks, waits only briefly and only for the terminal, and never raises.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from agentcli.core.processes.exit_cleanup import run_exit_cleanup

WAIT_SECONDS = 0.2
"""Maximum wait for a terminal that accepts no output; then its pending output is discarded."""
REPLY_SECONDS = 0.1

RESET = (
    "\x1b\\"  # ends a control string or a sequence that was cut off
    "\x1b[?2026l"  # synchronized output
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2031l\x1b[?2048l"  # focus, bracketed paste, colour scheme, in-band size
    "\x1b[?7h"  # line wrap
    "\x1b[<u"  # kitty keyboard: stored per screen, so before leaving the alternate one
    "\x1b[0m"
    "\x1b[r"  # scrolling region; moves the cursor, which the next sequence puts back
    "\x1b[?1049l"  # alternate screen
    "\x1b[?25h\x1b[0 q"  # cursor: visible, default shape
)


class TerminalRestore:
    """Armed by the code that changes the terminal; `restore_terminal` works once for every `arm`."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self._fd_in = fd_in
        self._fd_out = fd_out
        self.armed = False
        self._registered = False
        self._also = ""
        self.attributes: list[Any] | None = None
        """Terminal attributes before our changes; None without a terminal."""
        self.reply_due = False
        """The terminal has not answered a query yet. The shell would treat a late answer as typed input."""
        self.silence: Callable[[], object] | None = None
        """Called first, to stop all other writes to the terminal."""
        with contextlib.suppress(termios.error, OSError):
            self.attributes = termios.tcgetattr(fd_in)

    def arm(self) -> None:
        self.armed = True
        if not self._registered:
            self._registered = True
            self._register()

    def disarm(self) -> None:
        """Skip the restore, because the owner has restored the terminal."""
        self.armed = False

    def also(self, text: str) -> None:
        """Add a sequence to write before all others, e.g. to reset the title and the progress bar."""
        if text not in self._also:
            self._also += text

    @property
    def sequence(self) -> str:
        return RESET[:2] + self._also + RESET[2:]

    def restore_terminal(self) -> None:
        """Restore the terminal. Idempotent; never raises."""
        if not self.armed:
            return
        self.armed = False
        if self.silence is not None:
            with contextlib.suppress(Exception):
                self.silence()
        self._write(self.sequence.encode())
        if self.reply_due:
            self._swallow_reply()
        self.restore_attributes()

    def restore_attributes(self) -> None:
        if self.attributes is not None:
            with contextlib.suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(self._fd_in, termios.TCSANOW, self.attributes)

    def _swallow_reply(self) -> None:
        self.reply_due = False
        with contextlib.suppress(OSError, ValueError):
            if select.select([self._fd_in], [], [], REPLY_SECONDS)[0]:
                os.read(self._fd_in, 4096)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError, termios.error):
            if not select.select([], [self._fd_out], [], WAIT_SECONDS)[1]:
                termios.tcflush(self._fd_out, termios.TCOFLUSH)
            while data:
                data = data[os.write(self._fd_out, data) :]

    def _register(self) -> None:
        atexit.register(self.restore_terminal)
        before, thread_before = sys.excepthook, threading.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            self.restore_terminal()
            before(kind, error, trace)

        def thread_excepthook(arguments: threading.ExceptHookArgs) -> None:
            # The app continues without that thread, and a traceback on its screen would not help. The previous hook
            # reports it, unless that hook would only print.
            if not self.armed or thread_before is not threading.__excepthook__:
                thread_before(arguments)

        sys.excepthook = excepthook
        threading.excepthook = thread_excepthook


END_SECONDS = 1.7
"""Grace period for the app before the process is ended."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class OrderedExit:
    def __init__(
        self, restore: TerminalRestore, leave: Callable[[int], object], last_resort: Callable[[], object] | None
    ) -> None:
        """`leave` asks the app to end with an exit code. `last_resort` is called right before the process is killed."""
        self._restore = restore
        self._leave = leave
        self._last_resort = last_resort
        self._ordered = threading.Event()
        self._code = 0
        threading.Thread(target=self._enforce, name="terminal-end", daemon=True).start()

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """The second signal ends the process at once, unless it is SIGHUP, which also comes with the end of input."""
        if not self._ordered.is_set():
            self._order(128 + signum)
        elif signum != signal.SIGHUP:
            self.end_now(128 + signum)

    def terminal_gone(self) -> None:
        if not self._ordered.is_set():
            self._order(128 + signal.SIGHUP)

    def _order(self, code: int) -> None:
        self._code = code
        self._ordered.set()
        self._leave(code)

    def _enforce(self) -> None:
        """Keep enforcing the deadline after the app has ended, because the rest of the exit may hang too."""
        self._ordered.wait()
        time.sleep(END_SECONDS)
        self.end_now(self._code)

    def end_now(self, code: int) -> None:
        """Restore the terminal and end the process, without the app. May be called from any thread."""
        self._restore.restore_terminal()
        if self._last_resort is not None:
            with contextlib.suppress(Exception):
                self._last_resort()
        run_exit_cleanup()
        os._exit(code)
