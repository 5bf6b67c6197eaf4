"""Drives the engine for the app: what was sent, what waits, what runs, and the ESC that ends it. No Textual here.

One submission runs at a time, in one task. Prompts sent meanwhile wait in the engine, where the loop takes them in
after the next tool results; commands that cannot run beside it wait here. An interruption is told to the person at
once and the next prompt is taken at once; it begins as soon as the old submission has ended, and one that will not end
is cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.tui.model import Above, Add, Clear, Item, Remove
from agentcli.tui.presenter import Presenter
from agentcli.tui.session_view import Question, View
from agentcli.tui.status.data import FactsFeed

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.draft import Draft

PATIENCE = 3.0
"""Seconds that an aborted submission gets to end by itself. A command that ignores SIGTERM takes a little over two."""
BREATH = 0.008
"""Seconds of events without a pause, after which keys and frames have their turn."""

_CHANGES_FACTS = (
    ev.SessionStarted,
    ev.UsageReported,
    ev.MessageAppended,
    ev.ModeChanged,
    ev.TodosChanged,
    ev.DirectoryChanged,
    ev.BackgroundChanged,
    ev.ModelFellBack,
    ev.ContextCompacted,
    ev.Result,
)


@dataclass(slots=True)
class _Due:
    """Shown as sent, but not begun."""

    draft: Draft
    item: str
    """How the transcript calls it."""


@dataclass(slots=True)
class _Waiting:
    draft: Draft
    queued_id: str = ""
    """Of the prompt in the engine's queue; "" for what waits here."""


class Session:
    def __init__(
        self,
        view: View,
        presenter: Presenter | None = None,
        now: Callable[[], float] = time.monotonic,
        read_branch: Callable[[Path], str] | None = None,
    ) -> None:
        self.presenter = presenter or Presenter(self._title_of)
        self._view = view
        self._now = now
        self._engine: Engine | None = None
        self._running: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._waiting: list[_Waiting] = []
        self._next: list[_Due] = []
        """Shown already, to be run as soon as nothing runs."""
        self._questions: dict[str, Question] = {}
        self._asked = ""
        self._beside: set[asyncio.Task[None]] = set()
        self._asked_beside: set[str] = set()
        """Questions of commands that run beside a submission."""
        self._facts = FactsFeed(view.show_facts, read_branch)
        self._stop: AbortReason | None = None
        """Why what runs is to stop. Said to the engine again with each event: the first time it may not have begun."""
        self._holding = False
        """Another conversation is on its way: what is sent is for that one."""
        self._previewed: list[str] = []

    # ------------------------------------------------------------------------------------------------ the engine

    @property
    def engine(self) -> Engine | None:
        return self._engine

    def _title_of(self, name: str, input: Json) -> str:
        return self._engine.title_of(name, input) if self._engine is not None else ""

    @property
    def busy(self) -> bool:
        return self._running is not None

    def preview(self, items: Sequence[Item]) -> None:
        """The end of the conversation that will be opened."""
        self._previewed = [item.id for item in items]
        self._view.apply([Above(tuple(items))])

    def open(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        """The engine is there: show what it holds (`past`, if somebody has made items of it already), and begin with
        what was sent before it was."""
        from agentcli.tui.resume.replay import replayed

        self._engine = engine
        if past is None:
            past = replayed(engine.take_history(), engine.title_of)
        if past:
            self._view.apply([*map(Remove, self._previewed), Above(tuple(past))])
            self._previewed = []
        for notice in engine.take_notices():
            self._view.apply(self.presenter.show(notice, self._now()))
        self._facts.follow(engine)
        self._watch_background()
        self._go_on()

    def hold(self, holding: bool) -> None:
        """Another conversation is on its way, or is not coming after all."""
        self._holding = holding
        if not holding:
            self._go_on()

    async def replace(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        """Another conversation takes the place of this one (`/clear`, `/resume`). What was queued goes back into the
        box; what was sent since the command is for the new one."""
        self._holding = True
        if queued := self.withdraw_queued():
            self._view.give_back(queued)
        await self.close()
        self.presenter = Presenter(self._title_of)
        self._previewed, self._questions, self._asked = [], {}, ""
        self._view.apply([Clear()])
        self._next = [_Due(due.draft, self._show_sent(due.draft)) for due in self._next]
        self._holding = False
        self.open(engine, past)

    def note(self, text: str, level: str = "info") -> None:
        """Show a line of the front end's own, which a resumed session shows again."""
        if self._engine is not None:
            self._engine.note_shown(ev.NoticeRaised(text=text, level=level))
        self._view.apply(self.presenter.note(text, level))

    def withdraw_queued(self) -> list[Draft]:
        """What waits, out of the queue."""
        return [waiting.draft for waiting in self._take_waiting()]

    async def close(self) -> None:
        """End everything, the engine too."""
        engine, self._engine = self._engine, None
        await self._facts.aclose()
        if engine is not None:
            engine.abort(AbortReason.SHUTDOWN)
        tasks = [task for task in (self._running, self._guard, self._watching, *self._beside) if task is not None]
        if self._running is not None:
            await asyncio.wait([self._running], timeout=PATIENCE)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        self._running = self._guard = self._watching = None
        if engine is not None:
            await engine.aclose()

    # ---------------------------------------------------------------------------------------------- what is sent

    def send(self, draft: Draft, at_once: bool = False) -> None:
        """A prompt, a command or a shell line. While something runs it waits, or with `at_once` takes its place."""
        if self._engine is None or self._holding or (self.busy and self._stopping):
            self._next.append(_Due(draft, self._show_sent(draft)))
        elif not self.busy:
            self._show_sent(draft)
            self._start(draft)
        elif self._runs_beside(draft):
            self._run_beside(draft)
        elif at_once:
            self.steer(draft)
        else:
            self._enqueue(draft)

    def steer(self, draft: Draft | None = None) -> None:
        """Stop what runs and go on with this, or with what waits (abort reason `interrupt`, SPEC D4)."""
        drafts = self.withdraw_queued()
        if draft is not None:
            drafts.append(draft)
        if not drafts or self._engine is None:
            return
        if self.busy:
            self._view.apply(self.presenter.interrupted(self._now(), steering=True))
            self._abort(AbortReason.INTERRUPT)
        self._next += [_Due(one, self._show_sent(one)) for one in drafts]
        self._go_on()

    def take_back(self) -> Draft | None:
        """The prompt that was queued last, out of the queue; None when the loop has taken it in."""
        while self._waiting:
            waiting = self._waiting.pop()
            self._show_queue()
            taken = not waiting.queued_id or (
                self._engine is not None and self._engine.remove_queued(waiting.queued_id) is not None
            )
            if taken:
                return waiting.draft
        return None

    def interrupt(self) -> bool:
        """ESC: false when nothing runs. Says so at once; what was queued goes back into the box. A shell line beside
        the submission goes on; ESC without a submission ends it."""
        if not self.busy and not self._next:
            return self._engine is not None and self._engine.stop_shell_lines()
        drafts: list[Draft] = []
        if self._engine is not None and self.busy and not self._stopping:
            self._abort(AbortReason.USER_CANCEL)
            self._view.apply(self.presenter.interrupted(self._now()))
            self._view.show_activity(self.presenter.activity)
            drafts = self.withdraw_queued()
            self._drop_questions()
        if drafts := [*drafts, *self._take_due()]:
            self._view.give_back(drafts)
        return True

    def _abort(self, reason: AbortReason) -> None:
        assert self._engine is not None
        self._stop = reason
        self._engine.abort(reason)
        self._guard_end()

    def _take_due(self) -> list[Draft]:
        """What was shown as sent and has not begun: the engine is still starting, or what ran before is stopping."""
        due, self._next = self._next, []
        if due and not self.busy:
            self._view.apply(self.presenter.interrupted(self._now()))
            self._view.apply(self.presenter.settled(self._now()))
            self._view.show_activity(self.presenter.activity)
        self._view.apply([Remove(one.item) for one in due])
        drafts = [one.draft for one in due]
        self.presenter.forget_sent(sum(not _is_command(draft) for draft in drafts))
        return drafts

    def withdraw_due(self) -> list[Draft]:
        """Prompts that were shown as sent before there was an engine, out of the transcript. Commands stay due."""
        prompts = [due for due in self._next if not _is_command(due.draft)]
        self._next = [due for due in self._next if _is_command(due.draft)]
        self._view.apply([Remove(due.item) for due in prompts])
        self.presenter.forget_sent(len(prompts))
        if prompts and not self._next:
            self._view.apply(self.presenter.settled(self._now()))
            self._view.show_activity(self.presenter.activity)
        return [due.draft for due in prompts]

    def send_to_background(self) -> bool:
        """The command that runs goes on in the background; false when none does."""
        if self._engine is None:
            return False
        return any(self._engine.background(call) for call in self.presenter.running_calls)

    def answer(self, request_id: str, answer: Answer | None) -> None:
        """None: the person closed the question, which stops the work."""
        self._questions.pop(request_id, None)
        self._asked = "" if self._asked == request_id else self._asked
        if answer is None:
            self.interrupt()
        elif self._engine is not None:
            self._engine.answer(request_id, answer)
        self._ask_next()

    # --------------------------------------------------------------------------------------------------- running

    @property
    def _stopping(self) -> bool:
        return self._guard is not None and not self._guard.done()

    def _show_sent(self, draft: Draft) -> str:
        """How the transcript calls it."""
        item = self.presenter.sent(draft.text, self._now(), draft.images, _is_command(draft))
        self._view.apply([Add(item)])
        self._view.show_activity(self.presenter.activity)
        return item.id

    def _start(self, draft: Draft) -> None:
        assert self._engine is not None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._running = asyncio.get_running_loop().create_task(self._run(self._work(self._engine, draft)))

    async def _work(self, engine: Engine, draft: Draft) -> AsyncGenerator[ev.Event, None]:
        """The events of what was sent. Reading what a draft holds (pictures) may take a thread."""
        if _is_command(draft):
            engine.note_shown(ev.CommandEntered(text=draft.text))
        if draft.text.startswith("!"):
            work = engine.shell(draft.expanded().removeprefix("!").strip())
        else:
            from agentcli.commands.run import parse, run_command

            line = parse(draft.text)
            if line is None:
                pictures = draft.images > 0
                content = await asyncio.to_thread(draft.content) if pictures else draft.expanded()
                work = engine.submit(content, draft.text, mentions=draft.text)
            else:
                # Argument text that was pasted is meant as it was pasted.
                line = parse(draft.expanded()) or line
                work = run_command(engine, *line)
        async with aclosing(work) as events:
            async for event in events:
                yield event

    async def _run(self, work: AsyncGenerator[ev.Event, None]) -> None:
        try:
            async with aclosing(work) as events:
                breath = time.monotonic()
                async for event in events:
                    if self._stop is not None and self._engine is not None:
                        self._engine.abort(self._stop)
                    self._take(event)
                    if time.monotonic() - breath > BREATH:
                        # A reply may come faster than it is read: then nothing above has to wait for anything.
                        await asyncio.sleep(0)
                        breath = time.monotonic()
        except asyncio.CancelledError:
            self.note("The work did not stop in time and was cut off.", "warning")
        except Exception as error:  # a bug of ours ends this submission, not the app
            import logging

            logging.getLogger("agentcli").exception("the submission failed")
            text = f"agentcli itself failed: {type(error).__name__}: {error}. The conversation can go on."
            self.note(text, "error")
        finally:
            self._ended()

    def _take(self, event: ev.Event) -> None:
        """Show an event; the loop waits for nothing here."""
        now = self._now()
        operations = self.presenter.show(event, now)
        if operations:
            self._view.apply(operations)
        self._view.show_activity(self.presenter.activity)
        match event:
            case ev.PermissionRequested() | ev.CompactionProposed():
                if not self._stopping:
                    self._questions[event.request_id] = event
                    self._ask_next()
            case ev.PermissionResolved():
                self._settle_question(event.request_id)
            case ev.ContextCompacted() | ev.CompactionFailed():
                for request_id in [id for id, one in self._questions.items() if isinstance(one, ev.CompactionProposed)]:
                    self._settle_question(request_id)
            case ev.MessageAppended():
                self._forget_taken()
            case ev.Result():
                self._view.finished(event)
        if isinstance(event, _CHANGES_FACTS):
            self.refresh_facts()
        if isinstance(event, ev.ToolFinished | ev.DirectoryChanged | ev.Result):
            self._facts.look_at_branch()

    def _ended(self) -> None:
        self._running = None
        self._stop = None
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        self._drop_questions()
        self._view.apply(self.presenter.settled(self._now()))
        self._view.show_activity(self.presenter.activity)
        self._go_on()
        if not self.busy:
            self._watch_background()

    def _go_on(self) -> None:
        """Begin with what is due, if nothing runs: first what was shown as sent, then what was queued."""
        if self.busy or self._engine is None or self._holding:
            return
        if self._next:
            draft = self._next.pop(0).draft
            self.presenter.begin(self._now())
            self._view.show_activity(self.presenter.activity)
            self._start(draft)
            return
        if self._waiting:
            waiting = self._waiting.pop(0)
            self._show_queue()
            if not waiting.queued_id or self._engine.remove_queued(waiting.queued_id) is not None:
                self._show_sent(waiting.draft)
                self._start(waiting.draft)
            else:
                self._go_on()

    def _guard_end(self) -> None:
        """An abort that is not obeyed in time becomes a cancellation."""

        async def guard(task: asyncio.Task[None]) -> None:
            done, _pending = await asyncio.wait([task], timeout=PATIENCE)
            for _attempt in range(5):
                # Something may swallow a cancellation; not all that comes after it will.
                if done:
                    return
                task.cancel()
                done, _pending = await asyncio.wait([task], timeout=0.5)
            if not done:
                text = "The running task did not stop. Quit with Ctrl+C twice, then continue with agentcli -c."
                self.note(text, "error")

        if self._running is not None and not self._stopping:
            self._guard = asyncio.get_running_loop().create_task(guard(self._running))

    # -------------------------------------------------------------------------------------------- what is queued

    def _enqueue(self, draft: Draft) -> None:
        assert self._engine is not None
        waiting = _Waiting(draft)
        local = _is_command(draft) or any(not one.queued_id for one in self._waiting) or draft.images
        if not local:
            waiting.queued_id = self._engine.enqueue(draft.expanded(), "next", draft.text)
        self._waiting.append(waiting)
        self._show_queue()

    def _take_waiting(self) -> list[_Waiting]:
        """All that waits, out of every queue."""
        waiting, self._waiting = self._waiting, []
        if self._engine is not None:
            still = {prompt.id for prompt in self._engine.take_queued()}
            waiting = [one for one in waiting if not one.queued_id or one.queued_id in still]
        self._show_queue()
        return waiting

    def _forget_taken(self) -> None:
        """Prompts that the loop has taken in wait no more."""
        if self._waiting and self._engine is not None:
            still = set(self._engine.queued_ids)
            kept = [one for one in self._waiting if not one.queued_id or one.queued_id in still]
            if len(kept) != len(self._waiting):
                self._waiting = kept
                self._show_queue()

    def _show_queue(self) -> None:
        self._view.show_queued([waiting.draft.text for waiting in self._waiting])

    # ------------------------------------------------------------------------------------------ beside, questions

    def _runs_beside(self, draft: Draft) -> bool:
        if draft.text.startswith("!"):
            # Commands of the user's own shell wait for one another, not for the model.
            return self._engine is not None and self._engine.model_works
        from agentcli.commands.registry import find
        from agentcli.commands.run import parse

        line = parse(draft.text) if draft.text.startswith("/") else None
        command = find(line[0]) if line else None
        return command is not None and command.beside

    def _run_beside(self, draft: Draft) -> None:
        from agentcli.commands.registry import find
        from agentcli.commands.run import parse

        async def shell(engine: Engine) -> None:
            async with aclosing(engine.shell(draft.expanded().removeprefix("!").strip())) as events:
                async for event in events:
                    self._view.apply(self.presenter.show_beside(event, self._now()))

        async def run(engine: Engine) -> None:
            name, arguments = parse(draft.text) or ("", "")
            command = find(name)
            if command is None:
                return
            async with aclosing(command.load()(engine, arguments)) as events:
                async for event in events:
                    if isinstance(event, ev.PermissionRequested):
                        self._asked_beside.add(event.request_id)
                    engine.note_shown(event)
                    self._take(event)
            self.refresh_facts()

        assert self._engine is not None
        self._engine.note_shown(ev.CommandEntered(text=draft.text))
        self._view.apply(self.presenter.told(draft.text))
        work = shell(self._engine) if draft.text.startswith("!") else run(self._engine)
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _ask_next(self) -> None:
        if not self._asked and self._questions:
            event = next(iter(self._questions.values()))
            self._asked = event.request_id
            self._view.ask(event, len(self._questions) - 1)
        elif self._questions:
            self._view.show_waiting(len(self._questions) - 1)

    def _settle_question(self, request_id: str) -> None:
        """It has its answer, or needs none any more."""
        self._questions.pop(request_id, None)
        self._asked_beside.discard(request_id)
        self._view.withdraw(request_id)
        self._asked = "" if self._asked == request_id else self._asked
        self._ask_next()

    def _drop_questions(self) -> None:
        """What a submission asked ends with it; what a command beside it asked does not."""
        for request_id in self._questions.keys() - self._asked_beside:
            del self._questions[request_id]
            self._view.withdraw(request_id)
            self._asked = "" if self._asked == request_id else self._asked
        self._ask_next()

    def _watch_background(self) -> None:
        async def follow_commands(engine: Engine) -> None:
            while True:
                for event in await engine.background_changes():
                    self._view.apply(self.presenter.show(event, self._now()))
                self.refresh_facts()

        async def tell_of_files(engine: Engine) -> None:
            # Once: the model is told with the next prompt, and until then it stays true.
            self.note(await engine.file_changes())

        async def tell_of_rules(engine: Engine) -> None:
            while True:
                self.note(await engine.rule_changes())

        async def watch(engine: Engine) -> None:
            await asyncio.gather(follow_commands(engine), tell_of_files(engine), tell_of_rules(engine))

        if self._engine is not None and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(watch(self._engine))

    # ------------------------------------------------------------------------------------------------------ facts

    def refresh_facts(self) -> None:
        """Something that the status line shows may have changed."""
        self._facts.refresh()


def _is_command(draft: Draft) -> bool:
    """A slash command or a shell line. A prompt may begin with a path."""
    if not draft.text.startswith("/"):
        return draft.text.startswith("!")
    from agentcli.commands.run import parse

    return parse(draft.text) is not None
