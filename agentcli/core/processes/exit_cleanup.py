"""Clean-up for every exit, including `os._exit`, which skips the interpreter's own.

Callbacks run in reverse order of registration, each at most once, and never raise. Nothing here takes a lock:
`run_exit_cleanup` is also called from signal handlers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable
from typing import NoReturn

_callbacks: list[Callable[[], object]] = []


def on_exit(callback: Callable[[], object]) -> Callable[[], None]:
    """Call `callback` when the process ends. Returns a function that removes it."""
    if not _callbacks:
        atexit.unregister(run_exit_cleanup)
        atexit.register(run_exit_cleanup)
    _callbacks.append(callback)

    def forget() -> None:
        with contextlib.suppress(ValueError):
            _callbacks.remove(callback)

    return forget


def run_exit_cleanup() -> None:
    """Run the callbacks. Call it before every `os._exit`, except in forked workers."""
    while _callbacks:
        try:
            callback = _callbacks.pop()
        except IndexError:
            return
        with contextlib.suppress(Exception):
            callback()


def end_process(code: int) -> NoReturn:
    """End the process at once: kill its children, run the callbacks, exit."""
    from agentcli.core.processes.descendants import kill_descendants

    kill_descendants()
    run_exit_cleanup()
    os._exit(code)
