"""Runs the app with a watchdog over its event loop: `tui_watched.py LOG ARGUMENTS...`. For the bench of the loop.

Into LOG goes a line of JSON for every turn of the loop that is worth a look: how long it took on the clock, and how
much of that the thread was really running (another process may have had the processor). One that is too long has a
second line, from the watchdog, with the stack.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORTH_SECONDS = 0.005
LIMIT_SECONDS = 0.05
CALM_SECONDS = 1.0
"""After so long without a turn of the loop the watchdog sleeps until the next one."""


class WatchedLoops(asyncio.DefaultEventLoopPolicy):
    """Every new loop of the main thread is watched from its first turn on."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self._log = log

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        if threading.current_thread() is threading.main_thread():
            _watch(loop, self._log)
        return loop


class Watchdog:
    """Calls `on_block(seconds, stack)`, in its own thread, for every turn of the loop that takes longer than `limit`.

    Once while it still goes on, so that the stack is the one of the culprit; `seconds` is how long it took by then.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_block: Callable[[float, str], None], limit: float = 0.05
    ) -> None:
        self._loop: Any = loop
        self._on_block = on_block
        self._limit = limit
        self._loop_thread = threading.get_ident()
        self._busy_since: float | None = None
        self._turns = 0
        self._asleep = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """In the thread of the loop. A turn of the loop is what is between two waits of its selector."""
        self._loop_thread = threading.get_ident()
        selector = self._loop._selector
        select = selector.select

        def watched(timeout: float | None = None) -> Any:
            self._busy_since = None
            try:
                return select(timeout)
            finally:
                self._turns += 1
                self._busy_since = time.monotonic()
                if self._asleep:
                    self._wake.set()

        selector.select = watched
        self._thread.start()

    def _watch(self) -> None:
        told, last_turn, quiet_since = -1, -1, time.monotonic()
        while True:
            time.sleep(self._limit / 2)
            turn, since, now = self._turns, self._busy_since, time.monotonic()
            if turn != last_turn:
                last_turn, quiet_since = turn, now
            if since is not None and now - since > self._limit and turn != told:
                frame = sys._current_frames().get(self._loop_thread)
                # The turn may have ended while the stack was looked for; then it would accuse the wrong one.
                if turn == self._turns and self._busy_since is not None:
                    told = turn
                    self._on_block(now - since, "".join(traceback.format_stack(frame)) if frame else "")
            elif since is None and now - quiet_since > CALM_SECONDS:
                self._sleep(turn)
                quiet_since = time.monotonic()

    def _sleep(self, turn: int) -> None:
        self._wake.clear()
        self._asleep = True
        if turn == self._turns:
            self._wake.wait()
        self._asleep = False


def _watch(loop: asyncio.AbstractEventLoop, path: str) -> None:
    log = Path(path).open("a", buffering=1)  # noqa: SIM115 -- as long as the process

    def tell(seconds: float, running: float, stack: str = "") -> None:
        log.write(json.dumps({"seconds": seconds, "running": running, "stack": stack}) + "\n")

    Watchdog(loop, lambda seconds, stack: tell(seconds, 0.0, stack), LIMIT_SECONDS).start()
    selector: Any = loop._selector  # type: ignore[attr-defined]
    select = selector.select
    since, ran = time.monotonic(), time.thread_time()

    def timed(timeout: float | None = None) -> Any:
        nonlocal since, ran
        seconds, running = time.monotonic() - since, time.thread_time() - ran
        if seconds > WORTH_SECONDS:
            tell(seconds, running)
        try:
            return select(timeout)
        finally:
            since, ran = time.monotonic(), time.thread_time()

    selector.select = timed


if __name__ == "__main__":
    log_path, *arguments = sys.argv[1:]
    asyncio.set_event_loop_policy(WatchedLoops(log_path))
    sys.argv = ["agentcli", *arguments]
    from agentcli.__main__ import main

    main()
