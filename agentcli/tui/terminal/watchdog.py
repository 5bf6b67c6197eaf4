"""Makes Esc work while a callback blocks the event loop.

Independent of Textual and of the callbacks. Costs nothing while idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import traceback
from collections.abc import Callable
from types import FrameType

STUCK_SIGNAL = signal.SIGUSR2
LIMIT = 1.0
"""Seconds within which the loop has to respond to Esc."""
PATIENCE_AFTERWARDS = 4
RETRY_SECONDS = 0.05
ANSWER_SECONDS = 0.02
"""Time for which the key-reading thread waits for the loop: usually it responds, and no watching thread is needed."""
_LOOP_FILES = ("asyncio/base_events.py", "asyncio/events.py", "asyncio/selector_events.py", "/selectors.py")


class Stuck(Exception):
    """Raised inside a callback that blocks the event loop after Esc."""


class EscapeWatch:
    """Stops a callback that blocks the event loop. The thread that reads keys reports every Esc and Ctrl+C; if the loop
    has handled nothing for `limit` seconds after one (usually `LIMIT`), an exception ends the callback.

    Must be created in the main thread, where the loop runs: Python runs signal handlers only there.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, log: Callable[[str], object], limit: float | None = None
    ) -> None:
        """`log` gets the stack of the blocking callback. It is called in a thread."""
        self._loop = loop
        self._log = log
        self._limit = LIMIT if limit is None else limit
        self._main_thread = threading.get_ident()
        self._answer: threading.Event | None = None
        """Set when the loop responds to the last key press; None if no response is pending."""
        self._stack = ""
        self._handler_before = signal.signal(STUCK_SIGNAL, self._interrupt)

    def close(self) -> None:
        self._answered()
        signal.signal(STUCK_SIGNAL, self._handler_before)

    def pressed(self) -> None:
        """Report a key press. May be called from any thread."""
        if self._answer is not None:
            return
        answer = self._answer = threading.Event()
        try:
            self._loop.call_soon_threadsafe(self._answered)
        except RuntimeError:  # the loop is closed
            self._answered()
        if threading.get_ident() == self._main_thread or not answer.wait(min(ANSWER_SECONDS, self._limit)):
            threading.Thread(target=self._watch, args=(answer,), name="escape-watch", daemon=True).start()

    def _answered(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.set()

    def _watch(self, answer: threading.Event) -> None:
        """Interrupt repeatedly, because the blocking callback may catch the exception and continue. Wait longer after
        an exception: its handler may first format a traceback, which takes time."""
        wait = self._limit
        while not answer.wait(wait):
            if self._report():
                wait = self._limit * PATIENCE_AFTERWARDS
                continue
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(self._main_thread, STUCK_SIGNAL)
            wait = RETRY_SECONDS
        self._report()

    def _report(self) -> bool:
        """Log the stack of an interrupted callback. Return whether there was one since the last call."""
        stack, self._stack = self._stack, ""
        if stack:
            self._log(stack)
        return bool(stack)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        """Signal handler in the main thread: runs between instructions, so without locks. Raises only in a callback."""
        if self._answer is not None and frame is not None and _is_in_callback(frame):
            self._stack = "".join(traceback.format_stack(frame))
            raise Stuck("This handler blocked the app and was stopped.")


def _is_in_callback(frame: FrameType) -> bool:
    if frame.f_code.co_filename.replace("\\", "/").endswith(_LOOP_FILES):
        return False
    outer: FrameType | None = frame
    while outer is not None:
        if outer.f_code.co_name == "_run" and outer.f_code.co_filename.endswith("asyncio/events.py"):
            return True
        outer = outer.f_back
    return False
