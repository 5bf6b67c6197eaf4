"""The end that somebody else orders: by a signal, or by taking the terminal away.

In order if the app can, and else without it. Nothing of this starts a thread or takes a lock that another may hold,
since most of it runs in signal handlers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from agentcli.core.exit_cleanup import run_exit_cleanup
from agentcli.tui.terminal.restore import TerminalRestore

END_SECONDS = 1.7
"""How long the app may take to end, before it is ended."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class OrderedExit:
    def __init__(
        self, restore: TerminalRestore, leave: Callable[[int], object], last_resort: Callable[[], object] | None
    ) -> None:
        """`leave` asks the app to end with an exit code. `last_resort` is called right before the process is ended."""
        self._restore = restore
        self._leave = leave
        self._last_resort = last_resort
        self._ordered = threading.Event()
        self._code = 0
        threading.Thread(target=self._enforce, name="terminal-end", daemon=True).start()

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """The second one ends the process at once. Unless it is a hang-up: that also comes along with the end of the
        input, and nobody is there any more to be impatient."""
        if not self._ordered.is_set():
            self._order(128 + signum)
        elif signum != signal.SIGHUP:
            self._end_process(128 + signum)

    def terminal_gone(self) -> None:
        if not self._ordered.is_set():
            self._order(128 + signal.SIGHUP)

    def _order(self, code: int) -> None:
        self._code = code
        self._ordered.set()
        self._leave(code)

    def _enforce(self) -> None:
        """Goes on when the app has ended: what the process does after that may hang as well."""
        self._ordered.wait()
        time.sleep(END_SECONDS)
        self._end_process(self._code)

    def _end_process(self, code: int) -> None:
        self._restore.restore_terminal()
        if self._last_resort is not None:
            with contextlib.suppress(Exception):
                self._last_resort()
        run_exit_cleanup()
        os._exit(code)
