"""The session in plain mode: one prompt at a time, and the keys during work.

`run` sends a prompt and returns when the next one may be shown. The driver owns the engine; the view prints.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import is_lone_key
from agentcli.interactive import wording
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.driver import SessionDriver
from agentcli.plain.output.pieces import Gap, Piece
from agentcli.plain.output.printer import prompt_lines
from agentcli.plain.output.writer import Writer
from agentcli.plain.prompt.reader import Reader
from agentcli.plain.session_view import PrintedView

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine


class PlainSession:
    """Implements `reading.Listener` and `questions.Asking`."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        *,
        verbose: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._view = PrintedView(self, reader, writer, verbose=verbose, now=now)
        self._driver = SessionDriver(self._view)
        self.released = asyncio.Event()
        """The prompt may be shown: the submission has ended or was asked to stop."""
        self.released.set()
        self._taken_back: asyncio.Future[None] | None = None
        """Done when the user takes back a prompt that waits in `wait_for`."""
        self.next: deque[str] = deque()
        """Lines to send before the user is prompted again."""
        self.draft = ""
        """Initial text of the next prompt."""
        self.left = False
        """Whether the terminal was closed while a question was open."""

    @property
    def busy(self) -> bool:
        """Whether work is running and no prompt is shown."""
        return not self.released.is_set()

    @property
    def engine(self) -> Engine | None:
        return self._driver.engine

    @property
    def stuck(self) -> bool:
        return self._driver.stuck

    def open(self, engine: Engine, past: Sequence[Piece] = ()) -> None:
        """Use this engine from now on. `past` is its conversation so far."""
        self._view.print(past)
        self._driver.open(engine)

    async def close(self, reason: str = "exit") -> None:
        """End all work and close the engine. `reason` as for `Engine.aclose`."""
        await self._driver.close(reason)
        await self._view.aclose()

    def answer(self, request_id: str, answer: Answer | None) -> None:
        self._driver.answer(request_id, answer)

    # -------------------------------------------------------------------------------------------------- printing

    def show(self, pieces: Iterable[Piece]) -> None:
        """Print at once."""
        self._writer.write(pieces)

    def show_above(self, pieces: Sequence[Piece]) -> None:
        """Print above the prompt if that is shown."""
        self._view.print(pieces)

    async def printed(self) -> None:
        """Wait until everything above the prompt is printed."""
        await self._view.printed()

    def note(self, text: str, level: str = "info") -> None:
        self.show(self._view.format_note(text, level))

    def echo(self, text: str) -> None:
        """Print a line that is sent without having been typed at the prompt just now."""
        self.show([Gap(), *prompt_lines(text)])

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        self._writer.begin_line()
        answer = await self._reader.ask(question, hidden=hidden)
        self._writer.taken()
        return answer

    async def edit(self, text: str) -> str:
        return await self._reader.edit(text)

    # ----------------------------------------------------------------------------------------------- submissions

    async def run(self, text: str) -> None:
        """Send a line and return when the next prompt may be shown."""
        await self._view.printed()
        before = self._driver.submission
        if before is not None and not await self.wait_for(before, text):
            return
        self._driver.send(Draft(text))
        with self._reader.working(self):
            await self.released.wait()
            # The prompt would be in the way of their output.
            await self._driver.wait_beside()
            await self._view.answered()
        self._put_behind(self._reader.take_typed())

    async def wait_for(self, awaited: asyncio.Task[None], text: str) -> bool:
        """Wait for a task that has to end before this can be sent; False: Esc, and the text is in the next prompt."""
        self.released.clear()
        self._taken_back = asyncio.get_running_loop().create_future()
        with self._reader.working(self):
            await asyncio.wait([awaited, self._taken_back], return_when=asyncio.FIRST_COMPLETED)
        self._taken_back = None
        self.released.set()
        self._put_behind(self._reader.take_typed())
        if not awaited.done():
            self.put_before(text)
        return awaited.done()

    def put_before(self, *texts: str) -> None:
        self.draft = "\n".join(filter(None, (*texts, self.draft)))

    def _put_behind(self, text: str) -> None:
        self.draft = "\n".join(filter(None, (self.draft, text)))

    # ------------------------------------------------------------------------------------------ keys during work

    def interrupt(self) -> None:
        """Esc or Ctrl+C. What was queued goes into the next prompt."""
        if self._taken_back is None:
            self._driver.interrupt()
        elif not self._taken_back.done():
            self.note(wording.INTERRUPTED, "warning")
            self._taken_back.set_result(None)

    def is_a_key(self, text: str) -> bool:
        """Whether the prompt is an API key, which is never sent."""
        if not is_lone_key(text):
            return False
        self.note("This looks like an API key, so it was not sent to the model. Enter it with /login.", "warning")
        return True

    def line(self, text: str) -> None:
        """Send or queue a line typed during work. Prompts join the work after the next tool results; shell lines run in
        parallel; commands wait for its end, because their output would be in the middle of a reply. An empty line
        stops the work and sends what is queued."""
        if self.is_a_key(text):
            return
        if self._taken_back is not None or not self._driver.busy:
            self.next.extend([text] if text.strip() else ())
        elif self._driver.stopping:
            self._put_behind(text)
        elif not text.strip():
            self._driver.steer()
        elif text.startswith("!"):
            self._driver.send(Draft(text))
        else:
            self._driver.enqueue(Draft(text))

    def to_background(self) -> None:
        if not self._driver.send_to_background():
            self._view.note("No running command or agent can be moved to the background")
