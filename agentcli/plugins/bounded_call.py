"""Call a plugin's function with a time limit, in a thread of its own.

At the limit an exception is raised inside the function, which ends loops in Python. A call that blocks in C continues
in the background and its result is ignored; its thread does not keep the program from ending.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TimeLimitReached(Exception):
    """The function did not end in time."""

    def __init__(self, seconds: float, lines: tuple[tuple[str, int], ...]) -> None:
        super().__init__(f"it did not end within {seconds:g} seconds")
        self.lines = lines
        """File and line of each frame it was in, innermost first."""


class _Stopped(BaseException):
    """Raised inside the function's thread at the time limit."""


def call_bounded(function: Callable[[], T], seconds: float, name: str) -> T:
    """Call a function; blocking. Raises what the function raises, including SystemExit, and `TimeLimitReached`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if results:
        return results[0]
    lines = _lines(thread)
    if thread.ident is not None:
        import ctypes  # imported here: its 3 ms are needed only for a plugin that hangs

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped))
    raise TimeLimitReached(seconds, lines)


def _lines(thread: threading.Thread) -> tuple[tuple[str, int], ...]:
    frame = sys._current_frames().get(thread.ident or 0)
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
