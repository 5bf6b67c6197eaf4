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
from pathlib import Path
from typing import Any

WORTH_SECONDS = 0.005
LIMIT_SECONDS = 0.05


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


def _watch(loop: asyncio.AbstractEventLoop, path: str) -> None:
    from agentcli.tui.terminal.watchdog import Watchdog

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
