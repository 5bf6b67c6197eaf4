"""Print the session driver's reports and ask its questions on the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.interactive.view import Question, Sent
from agentcli.plain.output.pieces import Gap, Piece
from agentcli.plain.output.printer import Printer, prompt_lines
from agentcli.plain.output.writer import Writer
from agentcli.plain.prompt.reader import QuitRequested, Reader
from agentcli.plain.questions import answer_to

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.drafts.draft import Draft
    from agentcli.plain.session import PlainSession


class PrintedView:
    """Implements `interactive.view.View`. While a question is open nothing else is printed, so that the user sees all
    of it together; while the prompt is open, output goes above it."""

    def __init__(
        self, session: PlainSession, reader: Reader, writer: Writer, *, verbose: bool, now: Callable[[], float]
    ) -> None:
        self._session = session
        self._reader = reader
        self._writer = writer
        self._verbose = verbose
        self._now = now
        self._engine: Engine | None = None
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
        self.clear()

    # -------------------------------------------------------------------------------------------------- printing

    def print(self, pieces: Sequence[Piece]) -> None:
        if not pieces:
            return
        if self._asking is not None:
            self._held += pieces
        elif not self._session.released.is_set():
            above, self._above = self._above, []
            self._writer.write([*above, *pieces])
        else:
            self._above += pieces
            if self._printing is None:
                self._printing = start_task(self._print_above())

    async def _print_above(self) -> None:
        while self._above:
            pieces, self._above = self._above, []
            await self._reader.above(partial(self._writer.write, pieces))
        self._printing = None

    async def printed(self) -> None:
        if self._printing is not None:
            await asyncio.wait([self._printing])

    async def answered(self) -> None:
        """Wait until no question is open."""
        while self._asking is not None:
            await asyncio.wait([self._asking])

    async def aclose(self) -> None:
        await cancel_and_wait([task for task in (self._asking, self._printing) if task is not None])
        self._printing = None

    # ------------------------------------------------------------------------------------------------------ View

    def show_opened(self, engine: Engine) -> None:
        self._engine = engine
        self.clear()

    def clear(self) -> None:
        engine = self._engine
        if engine is None:
            self._printer = Printer(verbose=self._verbose)
        else:
            self._printer = Printer(engine.title_of, verbose=self._verbose, aside=lambda: context_used(engine))

    def show_sent(self, draft: Draft) -> str:
        return ""  # the user has just typed it

    def remove_sent(self, sent: Sequence[Sent]) -> None:
        """Do nothing: printed lines cannot be removed."""

    def show_started(self) -> None:
        self._session.released.clear()

    def show(self, event: ev.Event) -> None:
        self.print(self._printer.show(event, self._now()))

    def show_beside(self, event: ev.Event) -> None:
        if isinstance(event, ev.CommandEntered):
            self.print([Gap(), *prompt_lines(event.text)])
        else:
            self.show(event)

    def note(self, text: str, level: str = "info") -> None:
        self.print(self.format_note(text, level))

    def format_note(self, text: str, level: str) -> list[Piece]:
        return self._printer.note(text, level)

    def show_interrupted(self, steering: bool) -> None:
        held, self._held = self._held, []
        shown = self._printer.halt if steering else self._printer.interrupted
        self._writer.write([*held, *shown(self._now())])
        self._session.released.set()

    def show_settled(self) -> None:
        self._printer.settled()
        self._session.released.set()

    def show_queued(self, texts: list[str]) -> None:
        if len(texts) > self._queued:
            self.note(f"Queued: {' '.join(texts[-1].split())}")
        self._queued = len(texts)

    def take_due(self, draft: Draft) -> bool:
        self._session.next.append(draft.text)
        return True

    def give_back(self, drafts: list[Draft]) -> None:
        self._session.put_before(*(draft.text for draft in drafts))

    def apply_settings(self, names: frozenset[str]) -> None:
        """Do nothing: plain mode has no settings of its own that can change."""

    def refresh_commands(self) -> None:
        """Do nothing: the completer reads them each time."""

    def refresh_status(self) -> None:
        """Do nothing: there is no status line, and the prompt reads the mode each time."""

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
            answer = await answer_to(event, self._session)
        except QuitRequested:
            self._session.left = True
        except Exception as problem:  # noqa: BLE001 -- a question that cannot be asked stops the work
            self._session.note(f"The question could not be asked: {problem}", "error")
        self._asked = ""
        if answer is not None and isinstance(event, ev.PermissionRequested):
            self._printer.seen(event.tool_use_id)
        self._session.answer(event.request_id, answer)

    def _question_closed(self, asking: asyncio.Task[None]) -> None:
        if self._asking is asking:
            self._asking = None
            held, self._held = self._held, []
            # An open prompt is above the question now: printing paints it again below.
            self.print(held or ([Gap()] if self._session.released.is_set() else []))

    def show_waiting(self, count: int) -> None:
        """Do nothing: the next question is printed when this one is answered."""

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
