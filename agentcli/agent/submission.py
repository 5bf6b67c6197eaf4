"""One submission: a prompt, a compaction or a command, from its start to its one `Result` (SPEC 1, L1).

Its events are recorded before they are shown (`conversation_log.Delivery`). The last one is always exactly one
`Result`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import field, replace

from agentcli.agent.attachments.undo_notes import COMMAND_FAILED
from agentcli.agent.context.compaction import CompactArguments, Compaction
from agentcli.agent.conversation_log import Delivery
from agentcli.agent.costs.costs import ask_about_budget, model_usage
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import budget_stop
from agentcli.agent.loop.run_loop import run_loop
from agentcli.agent.loop_state import EndReason, Stop
from agentcli.agent.ports import ask_hooks, hook_message, prompt_blocks
from agentcli.agent.prompt_expansion import DefinedPrompt, PromptExpansion, RequestedPrompt, grant_rights
from agentcli.agent.session import Session
from agentcli.context.view import MISSING_RESULT
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, Aborted, AbortReason, in_thread
from agentcli.core.errors import AgentError
from agentcli.core.events import is_of_subagent
from agentcli.core.frozen import frozen, slotted
from agentcli.core.ids import Clock
from agentcli.core.messages import EXPANDED, TYPED, AnswerTracker, Json, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.permission import PermissionMode
from agentcli.core.usage import Totals, Usage
from agentcli.providers.catalog import Catalog

_REQUEST_SECONDS = 0.05
"""Time until the first request is sent; imports before that would delay it."""
PROMPT_BLOCKED = "prompt_blocked"
"""Terminal of a submission whose prompt a hook blocked."""


_GRACEFUL = {EndReason.COMPLETED.value, EndReason.HOOK_STOPPED.value, EndReason.STOP_HOOK_PREVENTED.value}
_NO_OUTPUT = {*_GRACEFUL, EndReason.NO_STRUCTURED_OUTPUT.value}
"""Terminals after which a requested structured output can be missing."""
_SUBTYPES: Mapping[str, str] = {
    EndReason.MAX_TURNS.value: "error_max_turns",
    EndReason.MAX_BUDGET_USD.value: "error_max_budget_usd",
}


@slotted
class Account:
    """One per submission; the engine passes it every event before a consumer sees it."""

    clock: Clock
    wants_structured: bool = False
    began: float = 0.0
    usage: Usage = Usage()
    api_duration_ms: int = 0
    text: str = ""
    earlier: str = ""
    """Text so far of an answer that the next reply continues or extends."""
    answer: AnswerTracker = field(default_factory=AnswerTracker)
    denials: list[Json] = field(default_factory=list)
    ended: ev.LoopEnded | None = None
    waited: float = 0.0
    """Seconds during which the user was asked."""
    asked: float = 0.0
    """Since when the user is asked, while `questions` are open."""
    questions: set[str] = field(default_factory=set)

    def take(self, event: ev.Event) -> None:
        self._take_question(event)
        match event:
            case ev.UsageReported():
                self.usage += event.usage
                self.api_duration_ms += event.duration_ms
            case ev.PermissionDenied():
                denial = {"tool_name": event.name, "tool_use_id": event.tool_use_id, "tool_input": event.input}
                self.denials.append(denial)
            case _ if is_of_subagent(event):
                pass
            case ev.ReplyStarted():
                self.text = self.earlier
            case ev.MessageAppended(message=message) if not message.is_copy:
                if message.origin is Origin.REPLY:
                    self.text = self.answer.joined(self.earlier, message.text)
                self.answer.take(message)
                self.earlier = self.text if self.answer.unfinished or self.answer.extends else ""
            case ev.NoticeRaised(code="command") if event.level != "error":
                self.text = f"{self.text}\n{event.text}" if self.text else event.text
            case ev.LoopEnded():
                self.ended = event

    def _take_question(self, event: ev.Event) -> None:
        was_open = bool(self.questions)
        match event:
            case ev.PermissionRequested() | ev.CompactionProposed():
                self.questions.add(event.request_id)
            case ev.PermissionResolved():
                self.questions.discard(event.request_id)
            case ev.ContextCompacted() | ev.CompactionFailed() | ev.LoopEnded() if not is_of_subagent(event):
                self.questions.clear()
            case _:
                return
        if self.questions and not was_open:
            self.asked = self.clock.monotonic()
        elif was_open and not self.questions:
            self.waited += self.clock.monotonic() - self.asked

    def result(self, totals: Totals, catalog: Catalog, session_id: str, uuid: str) -> ev.Result:
        ended = self.ended or ev.LoopEnded(
            terminal=EndReason.MODEL_ERROR.value, turns=0, text="The run ended unexpectedly."
        )
        subtype, is_error = self._verdict(ended)
        text = self.text
        if ended.final is not None:
            text = json.dumps(ended.final, ensure_ascii=False)
        return ev.Result(
            subtype=subtype,
            is_error=is_error,
            terminal=ended.terminal,
            text=text,
            errors=[ended.text or ended.terminal] if is_error else [],
            turns=ended.turns,
            duration_ms=int((self.clock.monotonic() - self.began) * 1000),
            waited_ms=int(self.waited * 1000),
            api_duration_ms=self.api_duration_ms,
            usage=self.usage,
            total_cost_usd=totals.cost_usd,
            fully_priced=totals.fully_priced,
            model_usage=model_usage(totals, catalog),
            permission_denials=self.denials,
            session_id=session_id,
            uuid=uuid,
            stop_reason=ended.stop_reason,
            api_error_status=ended.status,
            retryable=ended.retryable,
            structured_output=ended.final,
        )

    def _verdict(self, ended: ev.LoopEnded) -> tuple[str, bool]:
        if self.wants_structured and ended.final is None and ended.terminal in _NO_OUTPUT:
            return "error_max_structured_output_retries", True
        if ended.terminal in _GRACEFUL:
            return "success", False
        return _SUBTYPES.get(ended.terminal, "error_during_execution"), True


@frozen
class SubmissionWork:
    """The work of a submission: one of `prompt`, `defined`, `requested`, `compaction`, `command` and `is_woken`."""

    prompt: Message | None = None
    defined: DefinedPrompt | None = None
    """A command file, expanded to the prompt when the submission has begun."""
    requested: RequestedPrompt | None = None
    """A prompt of an MCP server, requested when the submission has begun."""
    mentions: str | None = None
    """The text whose `@path` mentions are attached; None: the prompt's own."""
    compaction: CompactArguments | None = None
    command: AsyncGenerator[ev.Event, None] | None = None
    is_woken: bool = False
    """Whether it has no prompt and reports ended background tasks to the model."""


class Submission:
    """Runs the work of one submission; `run` yields its events and may be called once."""

    def __init__(self, session: Session, work: SubmissionWork) -> None:
        self._session = session
        self._work = work
        self._controller = AbortController()
        self._signal = self._controller.signal
        self._hook_texts: tuple[str, ...] = ()
        """Text of hooks for the model, added to the prompt."""
        self._blocked: str | None = None
        """Why hooks blocked the prompt; None: they did not."""
        self._unchecked = False
        """Whether hooks must check the prompt and have not answered yet."""
        self._prompt = work.prompt
        self._mentions = work.mentions
        """The text whose `@path` mentions are attached; None: the prompt's own."""
        sends_prompt = work.prompt is not None or work.defined is not None or work.requested is not None
        self._account = Account(
            session.clock, session.wants_structured and sends_prompt, began=session.clock.monotonic()
        )
        self._delivery = Delivery(session, self._account.take)
        if work.defined is not None:
            self._delivery.keeps_rights_of = work.defined.definition.origin.label
        self._emit = self._delivery.emit

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        session, account, delivery = self._session, self._account, self._delivery
        if session.controller is not None:
            raise RuntimeError("a submission is running; use enqueue() or abort() first")
        session.controller, session.delivery = self._controller, delivery
        session.is_model_working = self._work.command is None
        # A background agent may have loaded a skill since the last one.
        self._revoke_rights()
        try:
            try:
                with ExitStack() as stack:
                    for phase in self._phases(stack):
                        async with aclosing(phase) as events:
                            async for event in events:
                                yield event
            except Exception as error:
                logging.getLogger("agentcli").exception("the submission failed")
                text = f"agentcli itself failed: {type(error).__name__}: {error}. You can continue the conversation."
                account.ended = ev.LoopEnded(terminal=EndReason.MODEL_ERROR.value, turns=0, text=text)
        finally:
            self._complete_log()
            try:
                await session.workspace.end(self._signal.reason is AbortReason.SHUTDOWN)
            finally:
                session.controller = session.delivery = None
                session.is_model_working = session.is_answering = False
                session.live_files.look_again()
                self._revoke_rights()
        for event in delivery.take_call_changes():
            delivery.record(event)
            yield event
        result = account.result(session.costs.totals, session.catalog, session.store.session_id, session.ids.new())
        running = [task.report() for task in session.background.tasks if task.status == "running"]
        result = replace(result, background_tasks=running)
        session.denials += account.denials
        if session.log.messages:
            # A command alone makes no session that --continue would then find.
            session.store.record(result)
            session.store.sync()
        yield result

    def _revoke_rights(self) -> None:
        """End the rights of commands and skills. An agent shares them with the submission that it works for."""
        if self._session.parent is None:
            self._session.permissions.revoke_rules()

    # ------------------------------------------------------------------------------------------------------ the work

    def _phases(self, stack: ExitStack) -> Iterator[AsyncGenerator[ev.Event, None]]:
        """The preparation of the prompt, if there is one, and the main work."""
        yield self._delivery.deliver(self._prepare(stack))
        if not self._delivery.looks_for_notices:
            return
        session, work = self._session, self._work
        if work.command is not None:
            yield self._delivery.deliver(self._run_command(work.command))
        elif self._prompt is None and not work.is_woken:
            yield self._delivery.deliver(self._compact(work.compaction or CompactArguments()))
        else:
            yield self._delivery.deliver(self._attach_updates())
            tracking = replace(session.context.compact_tracking, turn_of_last=None)
            # The turn limit counts from the last prompt on.
            begun = replace(session.loop_state(), compact=tracking, turn_count=session.wakes.turns + 1)
            yield run_loop(session, begun, self._signal)

    async def _prepare(self, stack: ExitStack) -> None:
        """Prepare the prompt, if there is one, and add it to the log."""
        session, emit = self._session, self._emit
        await self._refresh_files()
        await emit(self._start_event())
        for notice in (*session.take_notices(), *session.live_files.take_problems()):
            await emit(notice)
        for notice in stack.enter_context(self._model_of_definition()):
            await emit(notice)
        if (ended := await self._prepare_prompt()) is not None:
            await emit(ended)
            return
        prompt = self._prompt
        if prompt is not None and (note := await session.files.take_undo_note(session.log.holding)):
            session.user_notes.add(note)
        for message in session.user_notes.take():
            await emit(ev.MessageAppended(message=message))
        if prompt is not None:
            session.wakes.reset()
            session.workspace.begin(prompt.id)
            await emit(ev.MessageAppended(message=prompt))
            if session.parent is None:
                session.log.record_mode(session.permissions)
            if self._unchecked:
                await emit(self._leave_out(prompt))
            if session.permissions.mode is PermissionMode.DEFAULT and (offer := session.auto_mode_offer()):
                await emit(ev.NoticeRaised(text=offer, code="auto-mode"))
        if self._work.command is None:
            session.note_settings()
            await ask_about_budget(session, self._signal)
        self._delivery.looks_for_notices = True

    async def _prepare_prompt(self) -> ev.LoopEnded | None:
        """Expand the prompt and ask the hooks about it. Returns the end of a submission whose prompt is not sent."""
        session = self._session
        ended: ev.LoopEnded | None = None
        if self._work.defined is not None:
            ended = await self._expand_definition(self._work.defined)
        if self._work.requested is not None:
            ended = await self._request_prompt(self._work.requested)
        if ended is not None or self._prompt is None:
            return ended
        await self._ask_hooks(self._prompt)
        if self._blocked is None:
            return None
        session.store.note_input("prompt-hook", {"stop": self._blocked})
        return ev.LoopEnded(terminal=PROMPT_BLOCKED, turns=0, text=words.prompt_blocked(self._blocked))

    async def _expand_definition(self, defined: DefinedPrompt) -> ev.LoopEnded | None:
        """Make the prompt from a command file. Returns an end if that fails."""
        session, emit = self._session, self._emit
        if defined.runs_commands:
            # Before the calls of its commands, so that the session file shows them after it.
            session.store.record(ev.CommandEntered(text=defined.typed))
        for text in grant_rights(defined.definition, session.permissions):
            await emit(ev.NoticeRaised(text=text, level="warning", code="definitions"))
        expansion = PromptExpansion(defined, session.runner, session.tool_context, self._signal)
        await expansion.run(emit)
        self._prompt, self._mentions = expansion.message, expansion.mentions
        if expansion.message is not None:
            return None
        if not defined.runs_commands:
            # Without a prompt no other record has the typed line.
            session.store.record(ev.CommandEntered(text=defined.typed))
        return await self._not_sent(expansion.problem)

    async def _request_prompt(self, requested: RequestedPrompt) -> ev.LoopEnded | None:
        """Get the prompt from an MCP server. Returns an end if that fails."""
        session = self._session
        try:
            content = prompt_blocks(await self._signal.run(requested.request()))
        except (Aborted, AgentError) as error:
            # Without a prompt no other record has the typed line.
            session.store.record(ev.CommandEntered(text=requested.typed))
            return await self._not_sent(str(error))
        made_from = {"kind": requested.kind, "name": requested.name, "file": requested.name}
        meta = {TYPED: requested.typed, EXPANDED: made_from}
        self._prompt = Message("user", content, session.ids.new(), Origin.PROMPT, meta=meta)
        self._mentions = requested.mentions
        return None

    async def _not_sent(self, problem: str) -> ev.LoopEnded:
        """The end of a submission whose prompt could not be made."""
        if self._signal.aborted:
            return ev.LoopEnded(terminal=EndReason.ABORTED_TOOLS.value, turns=0, text="")
        await self._emit(ev.NoticeRaised(text=problem, level="error", code="command"))
        return ev.LoopEnded(terminal=COMMAND_FAILED, turns=0, text=problem)

    @contextmanager
    def _model_of_definition(self) -> Iterator[list[ev.NoticeRaised]]:
        """Use the model that a command file names, for this submission only. Gives notices about it."""
        settings, defined = self._session.settings, self._work.defined
        wanted = defined.definition.model if defined is not None else ""
        info = self._session.catalog.get(wanted or settings.profile.model)
        before = settings.profile
        if defined is None or wanted in ("", "inherit") or info.id == self._session.catalog.resolve(before.model):
            yield []
            return
        changed = replace(before, model=info.id)
        note = self._session.context.price_of_change(changed).note
        text = f"This prompt uses {info.id}, as {defined.definition.origin.label} says. {note}".rstrip()
        settings.profile = changed
        try:
            yield [ev.NoticeRaised(text=text, code="definitions")]
        finally:
            # Not if the user has chosen another model meanwhile.
            if settings.profile.model == info.id:
                settings.profile = replace(settings.profile, model=before.model)

    async def _attach_updates(self) -> None:
        """Attach texts of hooks, mentioned files and updates to the prompt; without a prompt, report ended background
        tasks instead."""
        session, emit, signal = self._session, self._emit, self._signal
        if self._prompt is None:
            notice, message = session.wakes.begin(session.ids)
            session.workspace.begin(message.id)
            await emit(notice)
            await emit(ev.MessageAppended(message=message))
        else:
            await self._complete_system()
            if session.permissions.is_late and session.parent is None:
                session.detach(session.permissions.warm(after=_REQUEST_SECONDS))
            if self._hook_texts:
                await emit(ev.MessageAppended(message=hook_message(self._hook_texts, session.ids.new())))
            mentions = session.mentions()
            if mentions is not None:
                text = self._prompt.text if self._mentions is None else self._mentions
                await mentions.attach(text, session.tool_context, emit, signal)
        attached: Sequence[Message] = ()
        with suppress(Aborted):
            attached = await signal.run(session.attachments.collect(session.loop_state()))
        for message in attached:
            await emit(ev.MessageAppended(message=message))

    async def _ask_hooks(self, prompt: Message) -> None:
        """Run the hooks of the session's start, before its first prompt, and of this prompt."""
        session, signal, emit = self._session, self._signal, self._emit
        source = self._session.source
        self._unchecked = session.hooks.checks_prompts
        with suppress(Aborted):
            if session.session_hooks is not None:
                task, session.session_hooks = session.session_hooks, None
                self._hook_texts = await signal.run(task)
            elif not session.session_begun:
                session.session_begun = True
                self._hook_texts = await ask_hooks(
                    session.hooks, lambda hooks: hooks.before_session(source), signal, emit
                )
            verdict = await ask_hooks(session.hooks, lambda hooks: hooks.before_prompt(prompt.text), signal, emit)
            self._hook_texts += verdict.context
            self._blocked = verdict.stop
            self._unchecked = False

    def _leave_out(self, prompt: Message) -> ev.RequestRepaired:
        """Keep a prompt in the log, where the user sees it, and out of later requests: hooks might have blocked it."""
        self._unchecked = False
        self._session.view.repair("leave_out_unchecked", prompt.id)
        return ev.RequestRepaired(repair="leave_out_unchecked", through=prompt.id, text=words.PROMPT_UNCHECKED)

    async def _refresh_files(self) -> None:
        """Load changed settings, definitions and plugins; what changes later counts for the next prompt."""
        if self._session.live_files.has_files:
            with suppress(Aborted):
                await self._signal.run(self._session.live_files.refresh_all())
        self._session.is_answering = self._work.command is None
        self._session.use_plugins()

    async def _complete_system(self) -> None:
        """Complete the system prompt before the first request, and load meanwhile what that request needs."""
        session, complete_system = self._session, self._session.late_system
        if complete_system is not None:
            session.detach(self._session.provider.warm())
            with suppress(Aborted):
                complete = await self._signal.run(in_thread(complete_system))
                session.settings.profile = replace(session.settings.profile, system=complete())
                session.late_system = None

    async def _run_command(self, command: AsyncGenerator[ev.Event, None]) -> None:
        problem = ""
        async with aclosing(command) as events:
            async for event in events:
                if isinstance(event, ev.NoticeRaised) and event.level == "error":
                    problem = event.text
                await self._emit(event)
        for message in self._session.user_notes.take():
            await self._emit(ev.MessageAppended(message=message))
        terminal = COMMAND_FAILED if problem else EndReason.COMPLETED.value
        await self._emit(ev.LoopEnded(terminal=terminal, turns=0, text=problem))

    async def _compact(self, shortening: CompactArguments) -> None:
        session = self._session
        review = session.questions if shortening.review and session.interactive else None
        compaction = Compaction(session, "manual", session.log.messages, self._signal, shortening.focus, review)
        await compaction.run()
        stop = Stop(EndReason.COMPLETED, compaction.problem or "")
        if self._signal.reason is AbortReason.BUDGET:
            stop = budget_stop(session.limits)
        elif not compaction.messages and not compaction.cancelled:
            stop = replace(
                stop, terminal=EndReason.ABORTED_STREAMING if self._signal.aborted else EndReason.MODEL_ERROR
            )
        await self._emit(ev.LoopEnded(terminal=stop.terminal.value, turns=0, text=stop.text))

    def _start_event(self) -> ev.SessionStarted:
        session = self._session
        profile = session.settings.profile
        return ev.SessionStarted(
            session_id=session.store.session_id,
            cwd=str(session.tool_context.root),
            model=session.catalog.resolve(profile.model),
            tools=list(session.registry.names),
            permission_mode=session.permissions.mode.value,
            api_key_source=session.api_key_source,
            effort=session.settings.effort or "",
            fast=session.settings.is_fast,
            sandbox=session.tool_context.launcher.level,
            commands=[
                *(session.definitions.commands if session.definitions is not None else ()),
                *(sorted(session.plugins.active.commands) if session.plugins is not None else ()),
            ],
            skills=list(session.definitions.skills) if session.definitions is not None else [],
            output_style=session.output_style,
            agents=sorted(session.agents.available()),
            plugins=session.plugins.collection.in_use() if session.plugins is not None else [],
            mcp_servers=session.mcp.statuses() if session.mcp is not None else [],
            mcp_prompts=session.mcp.prompt_commands() if session.mcp is not None else [],
        )

    def _complete_log(self) -> None:
        """Complete the log after any end: with the prompt and a result for every call (I1). Apply pending edits."""
        log, prompt = self._session.log, self._prompt
        self._session.context.request_ended()
        if prompt is not None and self._blocked is None and not log.has(prompt.id):
            log.keep(ev.MessageAppended(message=prompt))
        if prompt is not None and self._unchecked:
            self._session.store.record(self._leave_out(prompt))
        last = log.messages[-1] if log.messages else None
        if last is None or not last.tool_uses:
            return
        blocks = tuple(ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in last.tool_uses)
        results = Message("user", blocks, self._session.ids.new(), Origin.TOOL_RESULTS)
        log.keep(ev.MessageAppended(message=results))
