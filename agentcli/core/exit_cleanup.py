"""Clean-up that has to happen on every exit, also where `os._exit` skips the interpreter's own.

Callbacks run in the reverse order of their registration, each at most once, and never raise. Nothing here takes a lock:
`run_exit_cleanup` is called from signal handlers too.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable

_callbacks: list[Callable[[], object]] = []


def on_exit(callback: Callable[[], object]) -> Callable[[], None]:
    """Have `callback` called when the process ends. Returns a function that takes it back."""
    if not _callbacks:
        atexit.unregister(run_exit_cleanup)
        atexit.register(run_exit_cleanup)
    _callbacks.append(callback)

    def forget() -> None:
        with contextlib.suppress(ValueError):
            _callbacks.remove(callback)

    return forget


def run_exit_cleanup() -> None:
    """Call before every `os._exit` of the program itself; forked workers do not."""
    while _callbacks:
        try:
            callback = _callbacks.pop()
        except IndexError:
            return
        with contextlib.suppress(Exception):
            callback()
