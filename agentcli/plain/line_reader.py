"""The interface to the prompt of plain mode, and its implementation for terminals without escape sequences.

`LineReader` is for TERM=dumb: the system's line editing, whole lines read. It writes no escape sequence. The system
echoes text typed while a submission runs; a line that Enter ended counts as sent: it goes to the listener, and is never
taken as the answer to a question that is asked later.
"""

from __future__ import annotations

import asyncio
import os
import select
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from agentcli.core.errors import AgentError

if TYPE_CHECKING:
    from agentcli.plain.session import PlainSession


class PromptCancelled(Exception):
    """Ctrl+C at the empty prompt."""


class QuitRequested(Exception):
    """The user quits: Ctrl+D at the empty prompt, or `/exit`; or the terminal is gone."""


class Reader(Protocol):
    """Reads prompts and answers from the terminal."""

    async def prompt(self, draft: str = "") -> str:
        """Read a prompt; `draft` is its initial text. Raises `PromptCancelled`, `QuitRequested`."""

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """Read one line in answer to a question; None: Esc or Ctrl+C. `hidden`: not echoed. Raises `QuitRequested`."""

    def working(self, listener: PlainSession) -> AbstractContextManager[None]:
        """Send keys to the listener, and keep typed text for the next prompt. `ask` may be used meanwhile."""

    def take_typed(self) -> str:
        """Take the text that was typed during `working` and not sent."""

    async def above(self, write: Callable[[], None]) -> None:
        """Call `write`, which prints, without damaging an open prompt."""

    def signalled(self) -> None:
        """Handle SIGINT as Ctrl+C."""

    async def edit(self, text: str) -> str:
        """Let the user change a text in their editor. Raises `AgentError` if that is impossible."""


PROMPT, CONTINUED = "> ", "  "
_ESCAPE = "\x1b"
_PAUSE_SECONDS = 0.3
"""Time without a new line before a question is asked: the lines of a paste arrive together."""


class LineReader:
    """Implements `Reader` with whole lines from a descriptor."""

    def __init__(
        self,
        write: Callable[[str], None],
        ended_line: Callable[[], None],
        mode: Callable[[], str],
        remember: Callable[[str], None] = lambda _text: None,
        descriptor: int = 0,
    ) -> None:
        """`ended_line` is called when Enter ended the line of a prompt; `mode` returns the text before the prompt;
        `remember` adds a sent prompt to the history."""
        self._mode = mode
        self._write = write
        self._ended_line = ended_line
        self._descriptor = descriptor
        self._bytes = b""
        """The beginning of a line that has not ended."""
        self._read_at = 0.0
        """Monotonic time of the last read."""
        self._lines: deque[str] = deque()
        """Lines that were read and not yet used."""
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._listener: PlainSession | None = None
        self._asking = ""
        """The open prompt or question; "" for none."""
        self._attached = False
        self._remember = remember

    # ------------------------------------------------------------------------------------------- methods of `Reader`

    async def prompt(self, draft: str = "") -> str:
        if draft.strip():
            self._write(f"(not sent: {' '.join(draft.split())})\n")
        rows = [await self._read_line(f"{self._mode()} {PROMPT}".lstrip())]
        while rows[-1].endswith("\\"):
            rows[-1] = rows[-1][:-1]
            rows.append(await self._read_line(CONTINUED))
        text = "\n".join(rows)
        self._remember(text)
        return text

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        early = await self._take_early_lines()
        try:
            with self._no_echo() if hidden else nullcontext():
                text = await self._read_line(question)
        except PromptCancelled:
            return None
        finally:
            self._lines.extendleft(reversed(early))
        return None if text.strip() == _ESCAPE else text

    async def _take_early_lines(self) -> list[str]:
        """Take the lines that were sent before a question is shown: they must not answer it."""
        self._attach()
        while True:
            # One read returns at most one line.
            while not self._closed and select.select([self._descriptor], [], [], 0)[0]:
                self._read_available()
            pause = self._read_at + _PAUSE_SECONDS - time.monotonic()
            if self._closed or pause <= 0:
                break
            await asyncio.sleep(pause)
        early = list(self._lines)
        self._lines.clear()
        return early

    @contextmanager
    def _no_echo(self) -> Iterator[None]:
        """Turn the system's echo off."""
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
    def working(self, listener: PlainSession) -> Iterator[None]:
        self._attach()
        self._listener = listener
        self._pass_lines_on()
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
            self._waiter.set_exception(PromptCancelled())
        elif self._listener is not None:
            self._listener.interrupt()

    async def edit(self, text: str) -> str:
        raise AgentError("This terminal (TERM=dumb) cannot show an editor.")

    # ---------------------------------------------------------------------------------------------- reading lines

    async def _read_line(self, question: str) -> str:
        """Show a prompt or question and wait for a line. Raises `PromptCancelled`, `QuitRequested`."""
        self._attach()
        self._write(question)
        self._asking = question
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            while not self._lines:
                if self._closed:
                    raise QuitRequested
                await self._waiter
                self._waiter = asyncio.get_running_loop().create_future()
        except (PromptCancelled, QuitRequested, asyncio.CancelledError):
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
            asyncio.get_running_loop().add_reader(self._descriptor, self._read_available)

    def close(self) -> None:
        if self._attached:
            self._attached = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read_available(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except OSError:
            data = b""
        self._read_at = time.monotonic()
        if not data:
            self._closed = True
            self.close()
        *whole, self._bytes = (self._bytes + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._lines.extend(each.decode("utf-8", "replace") for each in whole)
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        else:
            self._pass_lines_on()

    def _pass_lines_on(self) -> None:
        """Pass lines to the listener. A line of nothing but Esc is an interruption."""
        while self._lines and self._listener is not None:
            text = self._lines.popleft()
            if text.strip() == _ESCAPE:
                self._listener.interrupt()
            else:
                self._listener.line(text)
