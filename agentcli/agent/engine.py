"""The conversation: one `Engine` owns the log, its persistence, totals, denials and budgets (SPEC 1, L1).

`submit` drives the loop for one prompt. Every event is taken in (log, session file, totals) before a consumer sees it,
so nothing is shown as done that a crash could lose; the last event is always exactly one `Result`. Answers, aborts and
changes come in as method calls at any time; what it holds and shows is in `agent/holdings.py` and
`agent/context/control.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Self

from agentcli.agent.context.compaction import Compaction, Shortening
from agentcli.agent.context.compaction_undo import undo_compaction
from agentcli.agent.context.control import Curated
from agentcli.agent.conversation import Live, loop_parts, mentions_for
from agentcli.agent.costs.account import Account
from agentcli.agent.costs.budget_question import BudgetQuestion
from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.run_loop import run_loop
from agentcli.agent.loop.state import CompactTracking, LoopState, Terminal
from agentcli.agent.prompt_queue import Priority, Prompt, QueuedPrompt, prompt_blocks
from agentcli.agent.questions import Asking
from agentcli.agent.shell_line import ShellLine
from agentcli.agent.updates.attachments import Composite, UserNotes
from agentcli.agent.updates.undo_notes import COMMAND_FAILED
from agentcli.context.normalise import MISSING_RESULT
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortReason, AbortSignal
from agentcli.core.aio import cancel_and_wait
from agentcli.core.launch import BareLauncher
from agentcli.core.messages import TYPED, Json, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.providers.base import Effort, Thinking
from agentcli.tools.builtin import in_thread


class Engine(Curated):
    # ----------------------------------------------------------------------------------------------- what comes in

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a `PermissionRequested` or a `CompactionProposed`; false when nobody waits for it any more."""
        return self._questions.answer(request_id, answer)

    def enqueue(self, prompt: Prompt, priority: Priority = "next", mentions: str | None = None) -> str:
        """Hand in a prompt while a submission runs: `now` and `next` join it after the next tool results, what is left
        at its end is for `take_queued`. Returns the prompt's id. `mentions` as for `submit`."""
        queued = QueuedPrompt(self._parts.ids.new(), prompt_blocks(prompt), priority, mentions)
        self._queue.add(queued)
        return queued.id

    def take_queued(self) -> tuple[QueuedPrompt, ...]:
        """Take back all prompts that no submission has taken in yet."""
        return self._queue.take()

    @property
    def queued_ids(self) -> tuple[str, ...]:
        """The ids of the prompts that wait, in the order they came."""
        return self._queue.ids

    def remove_queued(self, prompt_id: str) -> QueuedPrompt | None:
        return self._queue.remove(prompt_id)

    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None:
        """Stop the submission in flight; without one this does nothing."""
        if self._controller is None:
            return
        first = not self._controller.signal.aborted
        self._controller.abort(reason)
        if first and reason in (AbortReason.USER_CANCEL, AbortReason.INTERRUPT):
            self._parts.store.record(ev.SubmissionInterrupted(steering=reason is AbortReason.INTERRUPT))

    def set_model(self, model: str) -> None:
        self._profile = replace(self._profile, model=self._parts.catalog.resolve(model))
        self._changes += 1

    def set_small_model(self, model: str) -> None:
        """For side jobs."""
        self._profile = replace(self._profile, small_model=self._parts.catalog.resolve(model))

    def set_effort(self, effort: Effort | None) -> None:
        self._profile = replace(self._profile, effort=effort)

    def set_thinking(self, thinking: Thinking) -> None:
        self._profile = replace(self._profile, thinking=thinking)

    def set_budget(self, usd: float | None) -> None:
        """Another bound for this session, or none; it holds at once, also for what runs."""
        self._budget.set(usd)

    def set_mode(self, mode: PermissionMode) -> None:
        self._parts.permissions.set_mode(mode)

    # ---------------------------------------------------------------------------------------------------- the work

    async def submit(
        self, prompt: Prompt, typed: str = "", mentions: str | None = None
    ) -> AsyncGenerator[ev.Event, None]:
        """One prompt, to its end. Closing the generator aborts the work and leaves nothing behind. `typed`: how the
        user has it before their eyes, where that is another text (pasted text as a placeholder). `mentions`: the text
        whose `@path` mentions are attached; None: the prompt's own, "": none."""
        content = prompt_blocks(prompt)
        message = Message("user", content, self._parts.ids.new(), Origin.PROMPT)
        if typed and typed != message.text:
            message = replace(message, meta={TYPED: typed})
        async with aclosing(self._owned(self._submission(message, mentions=mentions))) as events:
            async for event in events:
                yield event

    async def compact(self, focus: str = "", review: bool = False) -> AsyncGenerator[ev.Event, None]:
        """Shorten the conversation now (`/compact`). Also ends with one `Result`. `review`: where somebody is there to
        answer, a `CompactionProposed` waits for an `answer` before anything changes."""
        async with aclosing(self._owned(self._submission(None, Shortening(focus, review)))) as events:
            async for event in events:
                yield event

    async def undo_compaction(self) -> AsyncGenerator[ev.Event, None]:
        """Put back into the context what the last compaction took out (`/compact undo`). Ends with one `Result`."""
        work = undo_compaction(self._parts.view, self._log, self._context_limits())
        async with aclosing(self._owned(self._submission(None, local=work))) as events:
            async for event in events:
                yield event

    async def perform(self, work: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        """A command's own work, told like a submission. Its notices (code `command`) are the text of the `Result`."""
        async with aclosing(self._owned(self._submission(None, local=work))) as events:
            async for event in events:
                yield event

    async def shell(self, command: str) -> AsyncGenerator[ev.Event, None]:
        """Run a command that the user typed, and tell the model with the next prompt or tool results. Beside a running
        submission it has no `Result`, and only `stop_shell_lines` ends it early; else it is a submission itself."""
        line = self._shell_line(command)
        work = self._recorded(line) if self.running else self._owned(self._submission(None, local=line))
        async with aclosing(work) as events:
            async for event in events:
                yield event

    async def _recorded(self, line: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        """Record a shell line that no submission takes in, to be shown again after a resume."""
        async with aclosing(line) as events:
            async for event in events:
                self._parts.store.record(event)
                yield event

    def stop_shell_lines(self) -> bool:
        """End the commands that the user typed and that still run; false when there are none."""
        return self._shell.stop()

    async def _shell_line(self, command: str) -> AsyncGenerator[ev.Event, None]:
        parts = self._parts
        own = ShellLine(command, self._tool_context, parts.environ, parts.ids.new(), parts.clock, parts.seams.workspace)
        # Beside the model's work the user's command is not stopped with it.
        signal = None if self._controller is None or self._model_works else self._controller.signal
        async with aclosing(self._shell.run(own, signal, self._notes.append)) as events:
            async for event in events:
                yield event

    def _owned(self, work: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        """Remember the submission under way, so that `aclose` can end one that its consumer has dropped."""
        if self._controller is None:
            self._open = work
        return work

    async def _submission(
        self,
        prompt: Message | None,
        shortening: Shortening | None = None,
        local: AsyncGenerator[ev.Event, None] | None = None,
        mentions: str | None = None,
    ) -> AsyncGenerator[ev.Event, None]:
        if self._controller is not None:
            raise RuntimeError("a submission is running; use enqueue() or abort() first")
        controller = self._controller = AbortController()
        self._model_works = local is None
        clock = self._parts.clock
        account = Account(clock, self._parts.wants_structured and prompt is not None, began=clock.monotonic())
        try:
            try:
                work = self._work(prompt, shortening, controller, local, mentions)
                async with aclosing(work) as events:
                    async for event in events:
                        event = self._taken(event, account, controller)
                        yield event
            except Exception as error:
                logging.getLogger("agentcli").exception("the submission failed")
                text = f"agentcli itself failed: {type(error).__name__}: {error}. The conversation can go on."
                account.ended = ev.LoopEnded(terminal=Terminal.MODEL_ERROR.value, turns=0, text=text)
        finally:
            self._settle(prompt)
            try:
                hurry = controller.signal.reason is AbortReason.SHUTDOWN
                await self._parts.seams.workspace.end(hurry)
            finally:
                self._controller = None
                self._model_works = False
        result = account.result(self._totals, self._parts.catalog, self.session_id, self._parts.ids.new())
        running = [task.report() for task in self.background_tasks if task.status == "running"]
        result = replace(result, background_tasks=running)
        self._denials += account.denials
        if self._log:
            # A command alone makes no session that --continue would then find.
            self._parts.store.record(result)
            self._parts.store.sync()
        yield result

    async def _work(
        self,
        prompt: Message | None,
        shortening: Shortening | None,
        controller: AbortController,
        local: AsyncGenerator[ev.Event, None] | None,
        mentions: str | None = None,
    ) -> AsyncGenerator[ev.Event, None]:
        """Everything between the start of a submission and its Result."""
        yield self._started()
        for notice in self.take_notices():
            yield notice
        if prompt is not None:
            await self._note_undone()
        for message in self._noted():
            yield ev.MessageAppended(message=message)
        if prompt is not None:
            self._parts.seams.workspace.begin(prompt.id)
            yield ev.MessageAppended(message=prompt)
            if self.permission_mode is PermissionMode.DEFAULT and (offer := self._parts.offer()):
                yield ev.NoticeRaised(text=offer, code="auto-mode")
        if local is None:
            async with aclosing(self._within_budget(controller)) as events:
                async for event in events:
                    yield event
        if local is not None:
            work = self._local(local)
        elif prompt is None:
            work = self._compaction(shortening or Shortening(), controller)
        else:
            work = self._answer_prompt(prompt, mentions, controller)
        async with aclosing(work) as events:
            async for event in events:
                yield event
                for news in self._news():
                    yield news

    async def _answer_prompt(
        self, prompt: Message, mentions: str | None, controller: AbortController
    ) -> AsyncGenerator[ev.Event, None]:
        """What hooks, mentioned files and attachments add to a prompt, then the loop."""
        await self._complete_system(controller.signal)
        told: tuple[str, ...] = ()
        with suppress(Aborted):
            told = await controller.signal.run(self._parts.seams.hooks.before_prompt(prompt.text))
        if told:
            blocks = tuple(TextBlock(text) for text in told)
            yield ev.MessageAppended(message=Message("user", blocks, self._parts.ids.new(), Origin.HOOK))
        async with aclosing(self._mentioned(prompt.text if mentions is None else mentions, controller)) as events:
            async for event in events:
                yield event
        collecting = self._parts.seams.attachments.collect(LoopState(tuple(self._log), self._tool_context))
        attached: Sequence[Message] = ()
        with suppress(Aborted):
            attached = await controller.signal.run(collecting)
        for message in attached:
            yield ev.MessageAppended(message=message)
        tracking = replace(self._compacting, turn_of_last=None)
        state = LoopState(tuple(self._log), self._tool_context, tracking)
        async with aclosing(run_loop(self._loop_parts(controller), state, controller.signal)) as events:
            async for event in events:
                yield event

    async def _mentioned(self, text: str, controller: AbortController) -> AsyncGenerator[ev.Event, None]:
        """Attach the files that a prompt mentions."""
        mentions = mentions_for(self._parts, self._questions)
        if mentions is None:
            return
        async with aclosing(mentions.attach(text, self._tool_context, controller.signal)) as events:
            async for event in events:
                yield event

    async def _complete_system(self, signal: AbortSignal) -> None:
        """Before the first request: the whole system prompt. What that request has to load is loaded meanwhile."""
        if self._late_system is not None:
            self._detach(self._parts.provider.warm())
            with suppress(Aborted):
                complete = await signal.run(in_thread(self._late_system))
                self._profile, self._late_system = replace(self._profile, system=complete()), None

    def _news(self) -> Iterator[ev.Event]:
        """What others have to say by now, each thing once."""

        def told(text: str, code: str) -> ev.NoticeRaised:
            return ev.NoticeRaised(text=text, level="warning", code=code)

        while self._parts.news:
            yield told(self._parts.news.pop(0), "instructions")
        while (text := self._parts.permissions.take_notice()) is not None:
            yield ev.NoticeRaised(text=text, code="permissions")
        while (text := self._parts.store.take_notice()) is not None:
            yield told(text, "session")
        while (text := self._parts.seams.workspace.take_notice()) is not None:
            yield told(text, "undo")
        while (text := self._tool_context.launcher.take_notice()) is not None:
            yield told(text, "quarantine")
        yield from self._background_changes()
        if (warning := self._budget.take_warning(self._totals, somebody=self.interactive)) is not None:
            yield told(warning, "budget")

    async def _local(self, work: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        problem = ""
        async with aclosing(work) as events:
            async for event in events:
                if isinstance(event, ev.NoticeRaised) and event.level == "error":
                    problem = event.text
                yield event
        for message in self._noted():
            yield ev.MessageAppended(message=message)
        yield ev.LoopEnded(terminal=COMMAND_FAILED if problem else Terminal.COMPLETED.value, turns=0, text=problem)

    def _noted(self) -> list[Message]:
        """What the model has to know of what the user did between submissions, or beside one."""
        known = {message.id for message in self._log} if self._given_notes else set()
        # After an abort the last ones may never have got into the log.
        again = [message for message in self._given_notes if message.id not in known]
        notes, self._notes = self._notes, []
        new = [note.message(self._parts.ids.new()) for note in notes]
        self._given_notes = [*again, *new]
        return self._given_notes

    async def _compaction(self, wanted: Shortening, controller: AbortController) -> AsyncGenerator[ev.Event, None]:
        review = self._questions if wanted.review and self.interactive else None
        compaction = Compaction(self._loop_parts(controller).compacting, "manual", wanted.focus, review)
        problem = ""
        async with aclosing(compaction.run(tuple(self._log), controller.signal)) as events:
            async for event in events:
                if isinstance(event, ev.CompactionFailed):
                    problem = event.text
                yield event
        terminal = Terminal.COMPLETED
        if not compaction.messages and not compaction.cancelled:
            terminal = Terminal.ABORTED_STREAMING if controller.signal.aborted else Terminal.MODEL_ERROR
        if controller.signal.reason is AbortReason.BUDGET:
            terminal = Terminal.MAX_BUDGET_USD
        yield ev.LoopEnded(terminal=terminal.value, turns=0, text=problem)

    def _started(self) -> ev.SessionStarted:
        return ev.SessionStarted(
            session_id=self.session_id,
            cwd=str(self._tool_context.root),
            model=self._parts.catalog.resolve(self._profile.model),
            tools=list(self._parts.registry.names),
            permission_mode=self.permission_mode.value,
            api_key_source=self._parts.api_key_source,
            effort=self._profile.effort or "",
            commands=list(self._parts.commands),
            sandbox=self._tool_context.launcher.level,
        )

    def _taken(self, event: ev.Event, account: Account, controller: AbortController) -> ev.Event:
        """Take an event in before anybody sees it: log, session file, totals, budget."""
        if isinstance(event, ev.LoopEnded) and event.terminal == Terminal.MAX_BUDGET_USD.value:
            event = replace(event, text=self._budget.text(self._totals, somebody=self.interactive))
        account.take(event)
        self._parts.watch.note(event)
        self._spending.take(event)
        self._kept(event)
        self._follow(event)
        match event:
            case ev.UsageReported():
                self._totals = self._totals.adding(event.model, event.usage, event.cost_usd)
                if self._budget_spent() and not self.interactive:
                    # With somebody there the reply goes on to its end, and before the next request they are asked.
                    controller.abort(AbortReason.BUDGET)
            case ev.DirectoryChanged():
                self._tool_context = replace(self._tool_context, cwd=type(self._tool_context.cwd)(event.cwd))
            case ev.TodosChanged():
                self._todos = event.todos
            case ev.ContextCompacted(trigger="manual" | "reactive"):
                self._changes += 1
            case ev.ContextEdited(step="compact"):
                self._changes += 1
                self._undone(event.edits)
            case ev.LoopContinued():
                self._parts.store.sync()
        return event

    def _settle(self, prompt: Message | None) -> None:
        """However a submission ended: the log has the prompt and a result for every call (I1), also when the consumer
        went away, and what the person has changed meanwhile holds."""
        self._landed()
        if prompt is not None and all(message.id != prompt.id for message in reversed(self._log)):
            self._kept(ev.MessageAppended(message=prompt))
        last = self._log[-1] if self._log else None
        if last is None or not last.tool_uses:
            return
        blocks = tuple(ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in last.tool_uses)
        self._kept(ev.MessageAppended(message=Message("user", blocks, self._parts.ids.new(), Origin.TOOL_RESULTS)))

    # ------------------------------------------------------------------------------------------------- plumbing

    async def _within_budget(self, controller: AbortController) -> AsyncGenerator[ev.Event, None]:
        """Before a request: at the budget's cap somebody is asked, and nothing is sent unless they raise it."""
        if not self._budget_spent() or controller.signal.aborted:
            return

        def ask(title: str, reason: str, display: Json, input: Json) -> Asking | None:
            return self.asking(title, reason, display, input, controller.signal)

        question = BudgetQuestion(self._budget, lambda: self._totals, ask)
        async with aclosing(question.run()) as events:
            async for event in events:
                yield event
        if question.stops:
            controller.abort(AbortReason.BUDGET)

    def _budget_spent(self) -> bool:
        return self._budget.is_spent(self._totals)

    def _loop_parts(self, controller: AbortController) -> LoopParts:
        live = Live(self._requests, lambda: self._profile, self._questions, self._queue, self._kept, self._detach)
        parts = loop_parts(replace(self._parts, tool_context=self._tool_context), live, controller)
        told = Composite(UserNotes(self._noted), parts.seams.attachments)
        return replace(
            parts,
            seams=replace(parts.seams, attachments=told),
            changes=lambda: self._changes,
            tracked=self._track,
            landed=self._landed,
            within_budget=lambda: self._within_budget(controller),
        )

    def _track(self, tracking: CompactTracking) -> None:
        self._compacting = tracking

    def _detach(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)

    async def aclose(self) -> None:
        """End what runs beside submissions, close connections and the session file."""
        self.abort(AbortReason.SHUTDOWN)
        self.stop_shell_lines()
        if self._open is not None:
            # "Already running": somebody is reading it at this moment, and the abort ends it there.
            with suppress(RuntimeError):
                await self._open.aclose()
        try:
            if self._tool_context.shells is not None:
                await self._tool_context.shells.aclose()
                self._recorded_changes()
        finally:
            await cancel_and_wait(list(self._detached))
            await self._parts.seams.workspace.aclose()
            await self._parts.provider.aclose()
            self._parts.store.close()
            launcher = self._tool_context.launcher
            if isinstance(launcher, BareLauncher):
                launcher.close()
            else:
                # A search for planted files may have to end first.
                await in_thread(launcher.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()
