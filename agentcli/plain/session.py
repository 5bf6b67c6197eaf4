"""The session in plain mode: one prompt at a time, the keys during work, printed events and questions.

`run` sends a prompt and returns when the next one may be shown. The driver owns the engine and calls the methods of
`View` here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.text.plaintext import is_lone_key
from agentcli.interactive import wording
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import SessionDriver
from agentcli.interactive.view import Question, View
from agentcli.plain.line_reader import QuitRequested, Reader
from agentcli.plain.pieces import Gap, Piece
from agentcli.plain.printer import Printer, prompt_lines
from agentcli.plain.questions import answer_to
from agentcli.plain.writer import Writer

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine


class PlainSession(View):
    """While a question is open nothing else is printed, so that the user sees all of it together; while the prompt is
    open, output goes above it."""

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
        self._verbose = verbose
        self._now = now
        self._printer = Printer(verbose=verbose)
        self.driver = SessionDriver(self)
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
        self._asking: asyncio.Task[None] | None = None
        """Task that asks the open question."""
        self._asked = ""
        """The id of the open question."""
        self._held: list[Piece] = []
        """Pieces to print when the open question is closed."""
        self._above: list[Piece] = []
        """Pieces that the task `_printing` prints above the prompt."""
        self._printing: asyncio.Task[None] | None = None
        self._queued = 0

    @property
    def busy(self) -> bool:
        """Whether work is running and no prompt is shown."""
        return not self.released.is_set()

    @property
    def engine(self) -> Engine | None:
        return self.driver.engine

    def open(self, engine: Engine, past: Sequence[Piece] = ()) -> None:
        """Use this engine from now on. `past` is its conversation so far."""
        self.print(past)
        self.driver.open(engine)

    async def close(self, reason: str = "exit") -> None:
        """End all work and close the engine. `reason` as for `Engine.aclose`."""
        await self.driver.close(reason)
        await cancel_and_wait([task for task in (self._asking, self._printing) if task is not None])
        self._printing = None

    # -------------------------------------------------------------------------------------------------- printing

    def write(self, pieces: Iterable[Piece]) -> None:
        """Print at once."""
        self._writer.write(pieces)

    def write_note(self, text: str, level: str = "info") -> None:
        """Print a line of the front end itself at once."""
        self.write(self._printer.note(text, level))

    def echo(self, text: str) -> None:
        """Print a line that is sent without having been typed at the prompt just now."""
        self.write([Gap(), *prompt_lines(text)])

    def print(self, pieces: Sequence[Piece]) -> None:
        """Print above an open prompt, or after an open question."""
        if not pieces:
            return
        if self._asking is not None:
            self._held += pieces
        elif self.busy:
            above, self._above = self._above, []
            self.write([*above, *pieces])
        else:
            self._above += pieces
            if self._printing is None:
                self._printing = start_task(self._print_above())

    async def _print_above(self) -> None:
        while self._above:
            pieces, self._above = self._above, []
            await self._reader.above(partial(self.write, pieces))
        self._printing = None

    async def printed(self) -> None:
        """Wait until everything above the prompt is printed."""
        if self._printing is not None:
            await asyncio.wait([self._printing])

    async def read(self, question: str, *, hidden: bool = False) -> str | None:
        """Read one line in answer to a question. None: Esc or Ctrl+C."""
        self._writer.begin_line()
        answer = await self._reader.ask(question, hidden=hidden)
        self._writer.taken()
        return answer

    async def edit(self, text: str) -> str:
        """Open the text in the user's editor and return it. Raises `AgentError`."""
        return await self._reader.edit(text)

    # ----------------------------------------------------------------------------------------------- submissions

    async def run(self, text: str) -> None:
        """Send a line and return when the next prompt may be shown."""
        await self.printed()
        before = self.driver.submission
        if before is not None and not await self.wait_for(before, text):
            return
        self.driver.send(Draft(text))
        await self.wait_until_released()

    async def wait_until_released(self) -> None:
        """Read keys until the next prompt may be shown."""
        with self._reader.working(self):
            await self.released.wait()
            # The prompt would be in the way of their output.
            await self.driver.wait_for_concurrent()
            while self._asking is not None:
                await asyncio.wait([self._asking])
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
            self.driver.interrupt()
        elif not self._taken_back.done():
            self.write_note(wording.INTERRUPTED, "warning")
            self._taken_back.set_result(None)

    def is_a_key(self, text: str) -> bool:
        """Whether the prompt is an API key, which is never sent."""
        if not is_lone_key(text):
            return False
        self.write_note("This looks like an API key, so it was not sent to the model. Enter it with /login.", "warning")
        return True

    def line(self, text: str) -> None:
        """Send or queue a line typed during work. Prompts join the work after the next tool results; shell lines run in
        parallel; commands wait for its end, because their output would be in the middle of a reply. An empty line
        stops the work and sends what is queued."""
        if self.is_a_key(text):
            return
        if self._taken_back is not None or not self.driver.busy:
            self.next.extend([text] if text.strip() else ())
        elif self.driver.stopping:
            self._put_behind(text)
        elif not text.strip():
            self.driver.steer()
        elif text.startswith("!"):
            self.driver.send(Draft(text))
        else:
            self.driver.enqueue(Draft(text))

    def to_background(self) -> None:
        if not self.driver.send_to_background():
            self.note("No running command or agent can be moved to the background")

    # -------------------------------------------------------------------------------------- what the driver shows

    def show_opened(self, engine: Engine) -> None:
        self._printer = Printer(engine.title_of, verbose=self._verbose, aside=lambda: context_used(engine))

    def show_started(self) -> None:
        self.released.clear()

    def show(self, event: ev.Event) -> None:
        self.print(self._printer.show(event, self._now()))

    def show_concurrent(self, event: ev.Event) -> None:
        if isinstance(event, ev.CommandEntered):
            self.print([Gap(), *prompt_lines(event.text)])
        else:
            self.show(event)

    def note(self, text: str, level: str = "info") -> None:
        self.print(self._printer.note(text, level))

    def show_interrupted(self, steering: bool) -> None:
        held, self._held = self._held, []
        shown = self._printer.halt if steering else self._printer.interrupted
        self.write([*held, *shown(self._now())])
        self.released.set()

    def show_settled(self) -> None:
        self._printer.settled()
        self.released.set()

    def show_queued(self, texts: list[str]) -> None:
        if len(texts) > self._queued:
            self.note(f"Queued: {' '.join(texts[-1].split())}")
        self._queued = len(texts)

    def take_due(self, draft: Draft) -> bool:
        self.next.append(draft.text)
        return True

    def give_back(self, drafts: list[Draft]) -> None:
        self.put_before(*(draft.text for draft in drafts))

    # --------------------------------------------------------------------------------------------------- questions

    def ask(self, event: Question, waiting: int) -> None:
        self._asked = event.request_id
        self._asking = start_task(self._ask(event, self._asking))
        self._asking.add_done_callback(self._question_closed)

    async def _ask(self, event: Question, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        answer = None
        try:
            answer = await answer_to(event, self)
        except QuitRequested:
            self.left = True
        except Exception as problem:  # noqa: BLE001 -- a question that cannot be asked stops the work
            self.write_note(f"The question could not be asked: {problem}", "error")
        self._asked = ""
        if answer is not None and isinstance(event, ev.PermissionRequested):
            self._printer.seen(event.tool_use_id)
        self.driver.answer(event.request_id, answer)

    def _question_closed(self, asking: asyncio.Task[None]) -> None:
        if self._asking is asking:
            self._asking = None
            held, self._held = self._held, []
            # An open prompt is above the question now: printing paints it again below.
            self.print(held or ([] if self.busy else [Gap()]))

    def withdraw(self, request_id: str) -> None:
        if self._asking is not None and self._asked == request_id:
            self._asked = ""
            self._asking.cancel()
            self._writer.taken()


def context_used(engine: Engine) -> str:
    """How full the context is, as text; "" if unknown."""
    outlook = engine.context.outlook()
    if outlook is None or not outlook.window:
        return ""
    share = outlook.tokens / outlook.window
    return f"{share:.0%} of the context" if share == 0 or share >= 0.01 else "<1% of the context"
