"""The prompt for TERM=dumb: the tty driver edits the line, and we read whole lines.

Writes no escape bytes. The tty driver echoes what is typed during work. A completed line counts as sent: it waits for
the work and never answers a question that is asked later.
"""

from __future__ import annotations

import asyncio
import os
import select
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from agentcli.core.errors import AgentError
from agentcli.plain.reading import Left, Listener, Stopped

PROMPT, CONTINUED = "> ", "  "
_ESCAPE = "\x1b"
_PAUSE_SECONDS = 0.3
"""Seconds without a new line before a question accepts an answer, so that lines of a paste do not answer it."""


class LineReader:
    def __init__(
        self, write: Callable[[str], None], ended_line: Callable[[], None], mode: Callable[[], str], descriptor: int = 0
    ) -> None:
        """`ended_line` is called when the user has completed the prompt's line. `mode` returns the text shown before
        the prompt."""
        self._mode = mode
        self._write = write
        self._ended_line = ended_line
        self._descriptor = descriptor
        self._bytes = b""
        self._came_at = 0.0
        self._lines: deque[str] = deque()
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Listener | None = None
        self._asking = ""
        self._attached = False
        self._remember: Callable[[str], None] = lambda _text: None

    def remember_with(self, remember: Callable[[str], None]) -> None:
        """Set the callback that adds each sent prompt to the history shared with the app."""
        self._remember = remember

    # ----------------------------------------------------------------------------------------------- the contract

    async def prompt(self, draft: str = "") -> str:
        if draft.strip():
            self._write(f"(not sent: {' '.join(draft.split())})\n")
        rows = [await self._asked(f"{self._mode()} {PROMPT}".lstrip())]
        while rows[-1].endswith("\\"):
            rows[-1] = rows[-1][:-1]
            rows.append(await self._asked(CONTINUED))
        text = "\n".join(rows)
        self._remember(text)
        return text

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        early = await self._taken_early()
        try:
            with self._unseen() if hidden else nullcontext():
                text = await self._asked(question)
        except Stopped:
            return None
        finally:
            self._lines.extendleft(reversed(early))
        return None if text.strip() == _ESCAPE else text

    async def _taken_early(self) -> list[str]:
        """Remove and return the lines sent before a question was shown: they must not answer it."""
        self._attach()
        while True:
            # One read of a tty returns one line, however many are waiting.
            while not self._closed and select.select([self._descriptor], [], [], 0)[0]:
                self._readable()
            pause = self._came_at + _PAUSE_SECONDS - time.monotonic()
            if self._closed or pause <= 0:
                break
            await asyncio.sleep(pause)
        early = list(self._lines)
        self._lines.clear()
        return early

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        """Turn off the echo of the tty driver."""
        before = termios.tcgetattr(self._descriptor)
        changed = [*before]
        changed[3] = before[3] & ~termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSANOW, changed)
        try:
            yield
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, before)
            self._write("\n")

    @contextmanager
    def working(self, listener: Listener) -> Iterator[None]:
        self._attach()
        self._listener = listener
        self._hand_out()
        try:
            yield
        finally:
            self._listener = None

    def take_typed(self) -> str:
        return ""

    async def above(self, write: Callable[[], None]) -> None:
        asking = self._asking
        if asking:
            self._write("\n")
        write()
        if asking:
            self._write(asking)

    def signalled(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Stopped())
        elif self._listener is not None:
            self._listener.interrupt()

    async def edit(self, text: str) -> str:
        raise AgentError("This terminal (TERM=dumb) cannot show an editor.")

    # -------------------------------------------------------------------------------------------------- plumbing

    async def _asked(self, question: str) -> str:
        self._attach()
        self._write(question)
        self._asking = question
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            while not self._lines:
                if self._closed:
                    raise Left
                await self._waiter
                self._waiter = asyncio.get_running_loop().create_future()
        except (Stopped, Left, asyncio.CancelledError):
            self._write("\n")
            raise
        finally:
            self._waiter = None
            self._asking = ""
            self._ended_line()
        return self._lines.popleft()

    def _attach(self) -> None:
        if not self._attached:
            self._attached = True
            asyncio.get_running_loop().add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        if self._attached:
            self._attached = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except OSError:
            data = b""
        self._came_at = time.monotonic()
        if not data:
            self._closed = True
            self.close()
        *whole, self._bytes = (self._bytes + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._lines.extend(each.decode("utf-8", "replace") for each in whole)
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        else:
            self._hand_out()

    def _hand_out(self) -> None:
        """Pass lines to the listener during work. A line that is only Esc stops the work."""
        while self._lines and self._listener is not None:
            text = self._lines.popleft()
            if text.strip() == _ESCAPE:
                self._listener.interrupt()
            else:
                self._listener.line(text)
