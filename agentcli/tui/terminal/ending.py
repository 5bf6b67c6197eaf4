"""Ends the app on a signal or when the terminal disappears.

Cleanly if the app responds, otherwise by force. Starts no threads and takes no shared locks, because most of it runs in
signal handlers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from agentcli.core.processes.exit_cleanup import run_exit_cleanup
from agentcli.tui.terminal.restore import TerminalRestore

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
