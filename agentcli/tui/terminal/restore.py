"""The terminal as it was before us: written straight to it, whatever else has gone wrong. Standard library only.

Called when the process is about to go: at its end, after an exception nobody caught, from signal handlers. So it may
run in the middle of anything, takes no lock, waits for nobody but shortly for the terminal, and never raises.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import sys
import termios
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

WAIT_SECONDS = 0.2
"""For a terminal that does not take output right now; after that what it has not shown yet is thrown away."""
REPLY_SECONDS = 0.1

RESET = (
    "\x1b\\"  # ends a control string or a sequence that was cut off in the middle
    "\x1b[?2026l"  # synchronized output
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2031l\x1b[?2048l"  # focus, bracketed paste, colour scheme, in-band size
    "\x1b[?7h"  # line wrap
    "\x1b[<u"  # kitty keyboard: kept per screen, so before leaving ours
    "\x1b[0m"
    "\x1b[r"  # the rows that scroll; moves the cursor, which the next one puts back
    "\x1b[?1049l"  # alternate screen
    "\x1b[?25h\x1b[0 q"  # cursor: visible, in its usual shape
)


class TerminalRestore:
    """Armed by whoever changes the terminal; `restore` works once for every `arm`."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self._fd_in = fd_in
        self._fd_out = fd_out
        self.armed = False
        self._registered = False
        self._also = ""
        self.attributes: list[Any] | None = None
        """As the terminal had them before; None when it is none."""
        self.reply_due = False
        """The terminal has not answered a query yet. A shell after us would take the answer for typing."""
        self.silence: Callable[[], object] | None = None
        """Called first: whoever else writes to the terminal stops."""
        with contextlib.suppress(termios.error, OSError):
            self.attributes = termios.tcgetattr(fd_in)

    def arm(self) -> None:
        self.armed = True
        if not self._registered:
            self._registered = True
            self._register()

    def disarm(self) -> None:
        """The terminal was put back in order by its owner."""
        self.armed = False

    def also(self, text: str) -> None:
        """One more sequence to write, before all others: for the title and the progress bar, where they were set."""
        if text not in self._also:
            self._also += text

    @property
    def sequence(self) -> str:
        return RESET[:2] + self._also + RESET[2:]

    def restore_terminal(self) -> None:
        """Idempotent; never raises."""
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
            # The app goes on without that thread; a traceback on its screen would help nobody. Reports are the
            # business of the hook that was there before, unless that one would only print.
            if not self.armed or thread_before is not threading.__excepthook__:
                thread_before(arguments)

        sys.excepthook = excepthook
        threading.excepthook = thread_excepthook
