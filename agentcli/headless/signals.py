"""Stop a headless run on signals: the first one gracefully, the second one immediately.

SIGINT aborts like a cancel by the user, SIGTERM and SIGHUP like a shutdown with a deadline. Exit codes are 128 +
number. A signal that was ignored when the process started stays ignored (nohup, background jobs of a shell).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from agentcli.core.abort import AbortReason

SHUTDOWN_SECONDS = 1.5
"""Seconds from SIGTERM or SIGHUP to the end, whatever a child process does: there is little time at a logout."""
ECHO_SECONDS = 0.15
"""Seconds within which a second equal signal is ignored: a launcher that forwards Ctrl+C sends two for one key press,
and a user is not that fast."""


class StopSignals:
    def __init__(self, stop: Callable[[AbortReason], None], force: Callable[[int], None]) -> None:
        self._stop = stop
        self._force = force
        self._installed: list[signal.Signals] = []
        self._first_at = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self.exit_code: int | None = None
        """128 + the number of the received signal; None if there was none."""

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.receive, number)
                self._installed.append(number)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        while self._installed:
            loop.remove_signal_handler(self._installed.pop())
        if self._deadline is not None:
            self._deadline.cancel()

    def receive(self, number: signal.Signals) -> None:
        loop = asyncio.get_running_loop()
        code = 128 + number
        if self.exit_code is not None:
            if code != self.exit_code or loop.time() - self._first_at > ECHO_SECONDS:
                self._force(code)
            return
        self.exit_code, self._first_at = code, loop.time()
        if number is not signal.SIGINT:
            self._deadline = loop.call_later(SHUTDOWN_SECONDS, self._force, code)
        self._stop(AbortReason.USER_CANCEL if number is signal.SIGINT else AbortReason.SHUTDOWN)
