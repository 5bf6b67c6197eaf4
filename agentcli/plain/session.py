"""The conversation in lines: what was sent, what runs, what is asked, and the Esc that ends it.

One submission runs at a time, in a task. An interruption is told at once and the next prompt comes at once; what is
sent there begins as soon as the old submission has ended, and one that will not end is cancelled. While a question is
open nothing else is printed, so that what a person says yes to stands together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.aio import cancel_and_wait
from agentcli.core.frozen import frozen
from agentcli.core.permission import Answer
from agentcli.core.plaintext import is_lone_key
from agentcli.interactive import wording
from agentcli.plain.pieces import Gap, Piece
from agentcli.plain.printer import Printer, prompt_lines
from agentcli.plain.questions import Question, answer_to
from agentcli.plain.reading import Left, Reader
from agentcli.plain.writer import Writer

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

PATIENCE = 3.0
"""Seconds that an aborted submission gets to end by itself."""
BREATH = 0.008
"""Seconds of events without a pause, after which keys have their turn."""


@frozen
class _Waiting:
    text: str
    queued_id: str = ""
    """Of the prompt in the engine's queue; "" for what waits here."""


class Session:
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
        self._printer = Printer(self._title_of, verbose=verbose, aside=self._context)
        self._engine: Engine | None = None
        self._running: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._asker: asyncio.Task[None] | None = None
        """Puts one question after the other, as long as there are any."""
        self._asking: asyncio.Task[Answer | None] | None = None
        """The one that is open."""
        self._watching: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        """Shell lines that were typed while the agent worked."""
        self._released = asyncio.Event()
        """The prompt may come: what runs has ended, or was told to."""
        self._released.set()
        self._stop: AbortReason | None = None
        self._questions: dict[str, Question] = {}
        self._held: list[Piece] = []
        """Printed once the question that is open has its answer."""
        self._waiting: list[_Waiting] = []
        self.next: deque[str] = deque()
        """To be sent without asking for another prompt first."""
        self.draft = ""
        """What stands in the next prompt."""
        self.left = False
        """The terminal went away while something was asked."""
        self.stuck = False
        """Something was left running that cannot even be cancelled."""
        self._waits = False
        """A prompt was sent that cannot begin yet."""

    # ------------------------------------------------------------------------------------------------ the engine

    @property
    def busy(self) -> bool:
        """Work goes on, and nobody is at a prompt."""
        return not self._released.is_set()

    @property
    def engine(self) -> Engine | None:
        return self._engine

    def _title_of(self, name: str, input: dict[str, object]) -> str:
        return self._engine.title_of(name, input) if self._engine is not None else name

    def _context(self) -> str:
        """How full it is."""
        outlook = self._engine.context.outlook() if self._engine is not None else None
        if outlook is None or not outlook.window:
            return ""
        share = outlook.tokens / outlook.window
        return f"{share:.0%} of the context" if share == 0 or share >= 0.01 else "<1% of the context"

    def open(self, engine: Engine) -> list[Piece]:
        """From now on it is about this engine; what that has to say at once."""
        self._engine = engine
        self._printer = Printer(self._title_of, verbose=self._verbose, aside=self._context)
        return [piece for notice in engine.take_notices() for piece in self._printer.show(notice, self._now())]

    @property
    def _tasks(self) -> tuple[asyncio.Task[Any] | None, ...]:
        return self._running, self._guard, self._asking, self._asker, self._watching, *self._beside

    async def close(self) -> None:
        """End everything, the engine too."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.abort(AbortReason.SHUTDOWN)
        if self._running is not None:
            await asyncio.wait([self._running], timeout=PATIENCE)
        if tasks := [task for task in self._tasks if task is not None]:
            for task in tasks:
                task.cancel()
            _done, unstoppable = await asyncio.wait(tasks, timeout=1.0)
            self.stuck = bool(unstoppable)
        self._running = self._guard = self._asker = self._watching = None
        if engine is not None:
            await engine.aclose()

    # -------------------------------------------------------------------------------------------------- printing

    def show(self, pieces: Iterable[Piece]) -> None:
        """Print, at once."""
        self._writer.write(pieces)

    def note(self, text: str, level: str = "info") -> None:
        self.show(self._printer.note(text, level))

    def _noted(self, text: str, level: str = "info") -> list[Piece]:
        """A line of our own about the conversation, recorded to be shown again after a resume."""
        if self._engine is not None:
            self._engine.record_shown(ev.NoticeRaised(text=text, level=level))
        return self._printer.note(text, level)

    def echo(self, text: str) -> None:
        """What is sent without having been typed at the prompt just now."""
        self.show([Gap(), *prompt_lines(text)])

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        self._writer.begin_line()
        answer = await self._reader.ask(question, hidden=hidden)
        self._writer.taken()
        return answer

    async def edit(self, text: str) -> str:
        return await self._reader.edit(text)

    def _print(self, pieces: list[Piece]) -> None:
        """Of what runs: it waits while a question is open."""
        if self._asker is not None:
            self._held += pieces
        elif pieces:
            self._writer.write(pieces)

    # ----------------------------------------------------------------------------------------------- submissions

    async def run(self, text: str) -> None:
        """Send it, and come back when the next prompt may be shown."""
        await self._stop_watching()
        if self._running is not None and not await self.wait_for(self._running, text):
            return
        assert self._engine is not None
        self._released.clear()
        self._stop = None
        self._running = asyncio.get_running_loop().create_task(self._drive(self._engine, self._work(text)))
        with self._reader.working(self):
            await self._released.wait()
            if self._beside:
                # The prompt would stand in the way of their output.
                await asyncio.wait(self._beside)
            if self._asker is not None:
                await asyncio.wait([self._asker])
        self.draft = "\n".join(filter(None, (self.draft, self._reader.take_typed())))

    async def wait_for(self, starting: asyncio.Task[None], text: str) -> bool:
        """Wait for what has to be there, or to have ended, before this can be sent; false: Esc, and the text stands in
        the next prompt."""
        self._released.clear()
        self._waits = True
        stopped = asyncio.get_running_loop().create_task(self._released.wait())
        with self._reader.working(self):
            await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        self._waits = False
        self._released.set()
        await cancel_and_wait([stopped])
        self.draft = "\n".join(filter(None, (self.draft, self._reader.take_typed())))
        if not starting.done():
            self.draft = "\n".join(filter(None, (text, self.draft)))
        return starting.done()

    def _work(self, text: str) -> AsyncGenerator[ev.Event, None]:
        assert self._engine is not None
        if text.startswith("!"):
            self._engine.record_shown(ev.CommandEntered(text=text))
            return self._engine.shell(text.removeprefix("!").strip())
        from agentcli.commands.run import parse, run_command

        line = parse(text)
        if line is None:
            return self._engine.submit(text)
        self._engine.record_shown(ev.CommandEntered(text=text))
        return run_command(self._engine, *line)

    async def _drive(self, engine: Engine, work: AsyncGenerator[ev.Event, None]) -> None:
        try:
            async with aclosing(work) as events:
                breath = time.monotonic()
                async for event in events:
                    if self._stop is not None:
                        # The first time the submission may not have begun.
                        engine.abort(self._stop)
                    self._take(event)
                    if time.monotonic() - breath > BREATH:
                        await asyncio.sleep(0)
                        breath = time.monotonic()
        except asyncio.CancelledError:
            self._print(self._noted("The work did not stop in time and was cut off.", "warning"))
        except Exception as error:  # a bug of ours ends this submission, not the session
            import logging

            logging.getLogger("agentcli").exception("the submission failed")
            text = f"agentcli itself failed: {type(error).__name__}: {error}. The conversation can go on."
            self._print(self._noted(text, "error"))
        finally:
            self._ended(engine)

    def _take(self, event: ev.Event) -> None:
        self._print(self._printer.show(event, self._now()))
        match event:
            case ev.PermissionRequested() | ev.CompactionProposed() if self._stop is None:
                self._questions[event.request_id] = event
                if self._asker is None:
                    self._asker = asyncio.get_running_loop().create_task(self._ask_all())
            case ev.PermissionResolved():
                self._settle_question(event.request_id)
            case ev.MessageAppended() if self._engine is not None:
                still = set(self._engine.queue.ids)
                self._waiting = [one for one in self._waiting if not one.queued_id or one.queued_id in still]

    def _ended(self, engine: Engine) -> None:
        self._running = None
        if self._guard is not None:
            # Not forgotten: `close` waits until it has really ended.
            self._guard.cancel()
        self._drop_questions()
        self._printer.settled()
        if self._stop is None:
            self.next.extend(self._withdrawn(engine))
        self._released.set()

    # ------------------------------------------------------------------------------------------------ interrupting

    def interrupt(self) -> None:
        """Esc or Ctrl+C: said at once. What was queued stands in the next prompt."""
        if self._waits:
            # It has not begun: what is waited for goes on behind the next prompt.
            self.note(wording.INTERRUPTED, "warning")
            self._waits = False
            self._released.set()
            return
        if self._engine is None or self._running is None or self._stop is not None:
            if self._engine is not None:
                self._engine.user_shell.stop()
            return
        self._abort(AbortReason.USER_CANCEL, self._printer.interrupted())
        self.draft = "\n".join(filter(None, (*self._withdrawn(self._engine), self.draft)))
        self._released.set()

    def _abort(self, reason: AbortReason, said: list[Piece]) -> None:
        assert self._engine is not None
        self._stop = reason
        self._engine.abort(reason)
        self._drop_questions()
        held, self._held = self._held, []
        self._writer.write([*held, *said])
        self._guard = asyncio.get_running_loop().create_task(self._see_it_end())

    async def _see_it_end(self) -> None:
        """An abort that is not obeyed in time becomes a cancellation."""
        task = self._running
        for patience in (PATIENCE, *(0.5 for _attempt in range(5))):
            if task is None or (await asyncio.wait([task], timeout=patience))[0]:
                return
            # Something may swallow a cancellation; not all that comes after it will.
            task.cancel()
        told = self._printer.note("The running task did not stop. Quit, then continue with agentcli -c.", "error")
        await self._reader.above(lambda: self._writer.write(told))

    # ---------------------------------------------------------------------------------- typed while work goes on

    def is_a_key(self, text: str) -> bool:
        """Whether this is an API key, pasted into the wrong place: it is no prompt, and goes nowhere."""
        if not is_lone_key(text):
            return False
        self.note("That is an API key: it was not sent to a model. /login takes one without showing it.", "warning")
        return True

    def line(self, text: str) -> None:
        """Prompts join the work after the next tool results; shell lines run beside it; commands wait for its end. An
        empty line makes what waits take the place of what runs."""
        if self.is_a_key(text):
            return
        if self._waits or self._running is None:
            self.next.extend([text] if text.strip() else ())
            return
        if self._engine is None or self._stop is not None:
            self.draft = "\n".join(filter(None, (self.draft, text)))
            return
        if not text.strip():
            self._steer()
            return
        if text.startswith("!") and self._engine.is_model_working:
            self._run_beside(self._engine, text)
            return
        from agentcli.commands.run import parse

        local = text.startswith("!") or parse(text) is not None or any(not one.queued_id for one in self._waiting)
        self._waiting.append(_Waiting(text, "" if local else self._engine.enqueue(text, "next")))
        self._print(self._printer.note(f"Waits: {' '.join(text.split())}"))

    def _run_beside(self, engine: Engine, text: str) -> None:
        """A shell line of the user's does not wait for the model."""

        async def run() -> None:
            async with aclosing(engine.shell(text.removeprefix("!").strip())) as events:
                async for event in events:
                    self._print(self._printer.show(event, self._now()))

        engine.record_shown(ev.CommandEntered(text=text))
        self._print([Gap(), *prompt_lines(text)])
        task = asyncio.get_running_loop().create_task(run())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _steer(self) -> None:
        if not self._waiting or self._engine is None:
            return
        self.next.extend(self._withdrawn(self._engine))
        self._abort(AbortReason.INTERRUPT, self._printer.halt())
        self._released.set()

    def _withdrawn(self, engine: Engine) -> list[str]:
        """All that waits, out of every queue."""
        waiting, self._waiting = self._waiting, []
        still = {prompt.id for prompt in engine.queue.take()}
        return [one.text for one in waiting if not one.queued_id or one.queued_id in still]

    def to_background(self) -> None:
        if self._engine is None or not any(map(self._engine.background.detach, self._printer.running_calls)):
            self._print(self._printer.note("No command is running that could go to the background"))

    # --------------------------------------------------------------------------------------------------- questions

    async def _ask_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._questions:
            event = next(iter(self._questions.values()))
            self._asking = loop.create_task(answer_to(event, self))
            await asyncio.wait([self._asking])
            if not self._asking.cancelled():
                self._answered(event, self._asking)
        self._asking = self._asker = None
        held, self._held = self._held, []
        self._print(held)

    def _answered(self, event: Question, asked: asyncio.Task[Answer | None]) -> None:
        self._questions.pop(event.request_id, None)
        problem = asked.exception()
        if problem is not None and not isinstance(problem, Left):
            self.note(f"The question could not be put: {problem}", "error")
        self.left = self.left or isinstance(problem, Left)
        answer = None if problem is not None else asked.result()
        if answer is None:
            self.interrupt()
            return
        if isinstance(event, ev.PermissionRequested):
            self._printer.seen(event.tool_use_id)
        if self._engine is not None:
            self._engine.answer(event.request_id, answer)

    def _settle_question(self, request_id: str) -> None:
        """It has its answer, or needs none any more."""
        open_now = next(iter(self._questions), "")
        if self._questions.pop(request_id, None) is not None and open_now == request_id:
            self._close_question()

    def _drop_questions(self) -> None:
        self._questions.clear()
        self._close_question()

    def _close_question(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._writer.taken()

    # ------------------------------------------------------------------------------------------ between submissions

    def watch(self) -> None:
        """Tell of background commands and of files that others changed, while the prompt is open."""

        async def told(pieces: list[Piece]) -> None:
            await self._reader.above(lambda: self._writer.write(pieces))

        async def follow_commands(engine: Engine) -> None:
            while True:
                for event in await engine.background.wait_for_changes():
                    await told(self._printer.show(event, self._now()))

        async def tell_of_files(engine: Engine) -> None:
            await told(self._noted(await engine.files.wait_for_notice()))

        async def tell_of_rules(engine: Engine) -> None:
            while True:
                await told(self._noted(await engine.permissions.wait_for_notice()))

        async def both(engine: Engine) -> None:
            await asyncio.gather(follow_commands(engine), tell_of_files(engine), tell_of_rules(engine))

        if self._engine is not None and self._watching is None and self._running is None:
            self._watching = asyncio.get_running_loop().create_task(both(self._engine))

    async def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([watching])
