"""One submission: a prompt, a compaction or a command, from its start to its one `Result` (SPEC 1, L1).

Every event is recorded (log, session file, totals) before a consumer gets it, so nothing is shown as done that a crash
could lose, except records that wait a few milliseconds for the next request (`ConversationLog`). The last event is
always exactly one `Result`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import replace
from typing import Any

from agentcli.agent.context.compaction import CompactArguments, Compaction
from agentcli.agent.conversation_state import ConversationState
from agentcli.agent.costs.account import Account
from agentcli.agent.definition_rights import lend_rights
from agentcli.agent.engine_setup import EngineSetup
from agentcli.agent.hooks import ask_hooks, hook_message
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import budget_stop
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.run_loop import run_loop
from agentcli.agent.loop_setup import ask_about_budget, loop_dependencies, mentions_for
from agentcli.agent.loop_state import EndReason, LoopState, Stop
from agentcli.agent.prompt_expansion import DefinedPrompt, PromptExpansion
from agentcli.agent.prompt_queue import prompt_blocks
from agentcli.agent.requested_prompt import RequestedPrompt
from agentcli.agent.updates.undo_notes import COMMAND_FAILED
from agentcli.context.normalise import MISSING_RESULT
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortReason
from agentcli.core.aio import Outlet, in_thread
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.messages import EXPANDED, TYPED, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.permission import PermissionMode
from agentcli.providers.requests.body import Feature

RECORD_SECONDS = 0.01
"""Delay before records are written that can wait, and before a turn is synced: both would delay the next request, which
has been sent by then."""
_REQUEST_SECONDS = 0.05
"""Time until the first request is sent; imports before that would delay it."""
PROMPT_BLOCKED = "prompt_blocked"
"""Terminal of a submission whose prompt a hook blocked."""


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

    def __init__(self, state: ConversationState, work: SubmissionWork) -> None:
        setup = state.setup
        self._state = state
        self._work = work
        self._controller = AbortController()
        self._signal = self._controller.signal
        self._outlet: Outlet[ev.Event] = Outlet()
        self._is_prepared = False
        """Whether the main work can begin."""
        self._earlier_turns = 0
        """Turns since the last prompt, before this submission."""
        self._hook_texts: tuple[str, ...] = ()
        """Text of hooks for the model, added to the prompt."""
        self._blocked: str | None = None
        """Why hooks blocked the prompt; None: they did not."""
        self._unchecked = False
        """Whether hooks must check the prompt and have not answered yet."""
        self._recording: asyncio.TimerHandle | None = None
        """Timer for records that can wait; None: no record waits."""
        self._has_unsynced_turn = False
        self._prompt = work.prompt
        self._mentions = work.mentions
        """The text whose `@path` mentions are attached; None: the prompt's own."""
        sends_prompt = work.prompt is not None or work.defined is not None or work.requested is not None
        wants_structured = setup.wants_structured and sends_prompt
        self._account = Account(setup.clock, wants_structured, began=setup.clock.monotonic())

    @property
    def _setup(self) -> EngineSetup:
        return self._state.setup

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        state, setup, account = self._state, self._setup, self._account
        if state.controller is not None:
            raise RuntimeError("a submission is running; use enqueue() or abort() first")
        state.controller = self._controller
        state.is_model_working = self._work.command is None
        # A background agent may have loaded a skill since the last one.
        self._take_back_rights()
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
            self._write_due()
            try:
                await setup.extensions.workspace.end(self._signal.reason is AbortReason.SHUTDOWN)
            finally:
                state.controller = None
                state.is_model_working = state.is_answering = False
                state.live_files.look_again()
                self._take_back_rights()
        for event in self._call_changes():
            self._record(event)
            yield event
        result = account.result(state.costs.totals, setup.catalog, setup.store.session_id, setup.ids.new())
        running = [task.report() for task in state.background.tasks if task.status == "running"]
        result = replace(result, background_tasks=running)
        state.denials += account.denials
        if state.log.messages:
            # A command alone makes no session that --continue would then find.
            setup.store.record(result)
            setup.store.sync()
        yield result

    async def emit(self, event: ev.Event) -> None:
        """Record an event, then hand it to the consumer: the only way out of a submission."""
        event = self._with_own_turns(event)
        self._record(event)
        await self._outlet.emit(event)
        for late in self._late_notices(event):
            self._record(late)
            await self._outlet.emit(late)

    def emit_soon(self, event: ev.Event) -> None:
        """The same without waiting for the consumer."""
        self._record(event)
        self._outlet.emit_soon(event)

    def deliver(self, work: Coroutine[Any, Any, object]) -> AsyncGenerator[ev.Event, None]:
        """What the work emits, for the consumer."""
        return self._outlet.deliver(work)

    def _take_back_rights(self) -> None:
        """End the rights of commands and skills. An agent shares them with the submission that it works for."""
        if self._setup.link is None:
            self._setup.permissions.take_back()

    # ------------------------------------------------------------------------------------------------------ the work

    def _phases(self, stack: ExitStack) -> Iterator[AsyncGenerator[ev.Event, None]]:
        """The preparation of the prompt, if there is one, and the main work."""
        yield self.deliver(self._prepare(stack))
        if not self._is_prepared:
            return
        work = self._work
        if work.command is not None:
            yield self.deliver(self._run_command(work.command))
        elif self._prompt is None and not work.is_woken:
            yield self.deliver(self._compact(work.compaction or CompactArguments()))
        else:
            yield self.deliver(self._attach_updates())
            tracking = replace(self._state.context.compact_tracking, turn_of_last=None)
            # The turn limit counts from the last prompt on.
            self._earlier_turns = self._state.wakes.turns
            begun = replace(self._loop_state(), compact=tracking, turn_count=self._earlier_turns + 1)
            yield run_loop(self._loop_dependencies(), begun, self._signal)

    async def _prepare(self, stack: ExitStack) -> None:
        """Prepare the prompt, if there is one, and add it to the log."""
        state, setup, emit = self._state, self._setup, self.emit
        await self._refresh_files()
        await emit(self._started())
        for notice in (*state.take_notices(), *state.live_files.take_problems()):
            await emit(notice)
        for notice in stack.enter_context(self._model_of_definition()):
            await emit(notice)
        if (ended := await self._prepare_prompt()) is not None:
            await emit(ended)
            return
        prompt = self._prompt
        if prompt is not None and (note := await state.files.take_undo_note(state.log.holding)):
            state.user_notes.add(note)
        for message in state.user_notes.take():
            await emit(ev.MessageAppended(message=message))
        if prompt is not None:
            state.wakes.reset()
            setup.extensions.workspace.begin(prompt.id)
            await emit(ev.MessageAppended(message=prompt))
            if setup.link is None:
                state.log.record_mode(setup.permissions)
            if self._unchecked:
                await emit(self._leave_out(prompt))
            if setup.permissions.mode is PermissionMode.DEFAULT and (offer := setup.offer()):
                await emit(ev.NoticeRaised(text=offer, code="auto-mode"))
        if self._work.command is None:
            await ask_about_budget(state, self._controller, emit)
        self._is_prepared = True

    async def _prepare_prompt(self) -> ev.LoopEnded | None:
        """Expand the prompt and ask the hooks about it. Returns the end of a submission whose prompt is not sent."""
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
        return ev.LoopEnded(terminal=PROMPT_BLOCKED, turns=0, text=words.prompt_blocked(self._blocked))

    def _loop_dependencies(self) -> LoopDependencies:
        return loop_dependencies(self._state, self._controller, self)

    async def _expand_definition(self, defined: DefinedPrompt) -> ev.LoopEnded | None:
        """Make the prompt from a command file. Returns an end if that fails."""
        state, setup, emit = self._state, self._setup, self.emit
        if defined.runs_commands:
            # Before the calls of its commands, so that the session file shows them after it.
            setup.store.record(ev.CommandEntered(text=defined.typed))
        for text in lend_rights(defined.definition, setup.permissions):
            await emit(ev.NoticeRaised(text=text, level="warning", code="definitions"))
        expansion = PromptExpansion(defined, self._loop_dependencies().turn.runner, state.tool_context, self._signal)
        await expansion.run(emit)
        self._prompt, self._mentions = expansion.message, expansion.mentions
        if expansion.message is not None:
            return None
        if not defined.runs_commands:
            # Without a prompt no other record has the typed line.
            setup.store.record(ev.CommandEntered(text=defined.typed))
        return await self._not_sent(expansion.problem)

    async def _request_prompt(self, requested: RequestedPrompt) -> ev.LoopEnded | None:
        """Get the prompt from an MCP server. Returns an end if that fails."""
        setup = self._setup
        try:
            content = prompt_blocks(await self._signal.run(requested.request()))
        except (Aborted, AgentError) as error:
            # Without a prompt no other record has the typed line.
            setup.store.record(ev.CommandEntered(text=requested.typed))
            return await self._not_sent(str(error))
        made_from = {"kind": requested.kind, "name": requested.name, "file": requested.name}
        meta = {TYPED: requested.typed, EXPANDED: made_from}
        self._prompt = Message("user", content, setup.ids.new(), Origin.PROMPT, meta=meta)
        self._mentions = requested.mentions
        return None

    async def _not_sent(self, problem: str) -> ev.LoopEnded:
        """The end of a submission whose prompt could not be made."""
        if self._signal.aborted:
            return ev.LoopEnded(terminal=EndReason.ABORTED_TOOLS.value, turns=0, text="")
        await self.emit(ev.NoticeRaised(text=problem, level="error", code="command"))
        return ev.LoopEnded(terminal=COMMAND_FAILED, turns=0, text=problem)

    @contextmanager
    def _model_of_definition(self) -> Iterator[list[ev.NoticeRaised]]:
        """Use the model that a command file names, for this submission only. Gives notices about it."""
        settings, defined = self._state.settings, self._work.defined
        wanted = defined.definition.model if defined is not None else ""
        info = self._setup.catalog.get(wanted or settings.profile.model)
        before = settings.profile
        if defined is None or wanted in ("", "inherit") or info.id == self._setup.catalog.resolve(before.model):
            yield []
            return
        changed = replace(before, model=info.id)
        note = self._state.context.price_of_change(changed).note
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
        state, setup, emit, signal = self._state, self._setup, self.emit, self._signal
        if self._prompt is None:
            notice, message = state.wakes.begin(setup.ids)
            setup.extensions.workspace.begin(message.id)
            await emit(notice)
            await emit(ev.MessageAppended(message=message))
        else:
            await self._complete_system()
            if setup.permissions.is_late and setup.link is None:
                state.detach(setup.permissions.warm(after=_REQUEST_SECONDS))
            if self._hook_texts:
                await emit(ev.MessageAppended(message=hook_message(self._hook_texts, setup.ids.new())))
            mentions = mentions_for(setup, state.questions)
            if mentions is not None:
                text = self._prompt.text if self._mentions is None else self._mentions
                await mentions.attach(text, state.tool_context, emit, signal)
        attached: Sequence[Message] = ()
        with suppress(Aborted):
            attached = await signal.run(state.attachments.collect(self._loop_state()))
        for message in attached:
            await emit(ev.MessageAppended(message=message))

    async def _ask_hooks(self, prompt: Message) -> None:
        """Run the hooks of the session's start, before its first prompt, and of this prompt."""
        state, signal, emit = self._state, self._signal, self.emit
        source = self._setup.session_source
        self._unchecked = state.hooks.checks_prompts
        with suppress(Aborted):
            if state.session_hooks is not None:
                task, state.session_hooks = state.session_hooks, None
                self._hook_texts = await signal.run(task)
            elif not state.session_begun:
                state.session_begun = True
                self._hook_texts = await ask_hooks(
                    state.hooks, lambda hooks: hooks.before_session(source), signal, emit
                )
            verdict = await ask_hooks(state.hooks, lambda hooks: hooks.before_prompt(prompt.text), signal, emit)
            self._hook_texts += verdict.context
            self._blocked = verdict.blocked
            self._unchecked = False

    def _leave_out(self, prompt: Message) -> ev.RequestRepaired:
        """Keep a prompt in the log, where the user sees it, and out of later requests: hooks might have blocked it."""
        self._unchecked = False
        self._setup.view.repair("leave_out_unchecked", prompt.id)
        return ev.RequestRepaired(repair="leave_out_unchecked", through=prompt.id, text=words.PROMPT_UNCHECKED)

    async def _refresh_files(self) -> None:
        """Load changed settings, definitions and plugins; what changes later counts for the next prompt."""
        if self._state.live_files.has_files:
            with suppress(Aborted):
                await self._signal.run(self._state.live_files.refresh_all())
        self._state.is_answering = self._work.command is None
        self._state.use_plugins()

    def _loop_state(self) -> LoopState:
        self._state.log.take_in()
        return LoopState(self._state.log.messages, self._state.tool_context)

    async def _complete_system(self) -> None:
        """Complete the system prompt before the first request, and load meanwhile what that request needs."""
        state, complete_system = self._state, self._state.late_system
        if complete_system is not None:
            state.detach(self._setup.provider.warm())
            with suppress(Aborted):
                complete = await self._signal.run(in_thread(complete_system))
                state.settings.profile = replace(state.settings.profile, system=complete())
                state.late_system = None

    async def _run_command(self, command: AsyncGenerator[ev.Event, None]) -> None:
        problem = ""
        async with aclosing(command) as events:
            async for event in events:
                if isinstance(event, ev.NoticeRaised) and event.level == "error":
                    problem = event.text
                await self.emit(event)
        for message in self._state.user_notes.take():
            await self.emit(ev.MessageAppended(message=message))
        terminal = COMMAND_FAILED if problem else EndReason.COMPLETED.value
        await self.emit(ev.LoopEnded(terminal=terminal, turns=0, text=problem))

    async def _compact(self, shortening: CompactArguments) -> None:
        state = self._state
        review = state.questions if shortening.review and state.interactive else None
        dependencies = self._loop_dependencies()
        compaction = Compaction(
            dependencies.for_compaction(), "manual", state.log.messages, self._signal, shortening.focus, review
        )
        await compaction.run()
        stop = Stop(EndReason.COMPLETED, compaction.problem or "")
        if self._signal.reason is AbortReason.BUDGET:
            stop = budget_stop(dependencies.limits)
        elif not compaction.messages and not compaction.cancelled:
            stop = replace(
                stop, terminal=EndReason.ABORTED_STREAMING if self._signal.aborted else EndReason.MODEL_ERROR
            )
        await self.emit(ev.LoopEnded(terminal=stop.terminal.value, turns=0, text=stop.text))

    def _started(self) -> ev.SessionStarted:
        state, setup = self._state, self._setup
        profile = state.settings.profile
        return ev.SessionStarted(
            session_id=setup.store.session_id,
            cwd=str(state.tool_context.root),
            model=setup.catalog.resolve(profile.model),
            tools=list(state.registry.names),
            permission_mode=setup.permissions.mode.value,
            api_key_source=setup.api_key_source,
            effort=state.settings.effort or "",
            fast=state.settings.is_fast,
            sandbox=state.tool_context.launcher.level,
            commands=[
                *(setup.definitions.commands if setup.definitions is not None else ()),
                *(sorted(setup.plugins.active.commands) if setup.plugins is not None else ()),
            ],
            skills=list(setup.definitions.skills) if setup.definitions is not None else [],
            output_style=setup.output_style,
            agents=sorted(state.agents.available()),
            plugins=setup.plugins.collection.in_use() if setup.plugins is not None else [],
            mcp_servers=setup.mcp.statuses() if setup.mcp is not None else [],
            mcp_prompts=setup.mcp.prompt_commands() if setup.mcp is not None else [],
        )

    def _with_own_turns(self, event: ev.Event) -> ev.Event:
        """The end of the loop counts all turns since the last prompt; a result has those of its submission."""
        if isinstance(event, ev.LoopEnded) and event.turns:
            self._state.wakes.turns = event.turns
            return replace(event, turns=event.turns - self._earlier_turns)
        return event

    def _late_notices(self, event: ev.Event) -> Iterator[ev.Event]:
        """Notices that have come up beside the work, each once, for delivery after this event."""
        if not self._is_prepared or event.policy.before_request:
            return

        def warning(text: str, code: str) -> ev.NoticeRaised:
            return ev.NoticeRaised(text=text, level="warning", code=code)

        setup, state = self._setup, self._state
        while setup.instruction_notices:
            yield warning(setup.instruction_notices.pop(0), "instructions")
        while (text := setup.store.take_notice()) is not None:
            yield warning(text, "session")
        if setup.link is not None:
            return  # The rest is about the whole session, which reports it itself.
        while (text := setup.permissions.take_notice()) is not None:
            yield ev.NoticeRaised(text=text, code="permissions")
        while (text := setup.extensions.workspace.take_notice()) is not None:
            yield warning(text, "undo")
        yield from self._call_changes()
        while (text := state.tool_context.launcher.take_notice()) is not None:
            yield warning(text, "quarantine")
        if setup.plugins is not None:
            yield from setup.plugins.take_notices()
        if state.server_notices is not None:
            yield from state.server_notices.take()
        yield from state.background.take_changes()
        if (text := state.costs.take_budget_warning()) is not None:
            yield warning(text, "budget")

    def _call_changes(self) -> Iterator[ev.Event]:
        for one in self._setup.extensions.workspace.take_call_changes():
            yield ev.CommandChangedFiles(
                tool_use_id=one.call_id,
                files=one.files,
                added=one.added,
                removed=one.removed,
                diff=one.diff,
                is_cut=one.is_cut,
            )

    # ----------------------------------------------------------------------------------------------------- recording

    def _record(self, event: ev.Event) -> None:
        """Record an event before a consumer gets it: log, session file, totals, budget."""
        if event.policy.recorded == "no" and not event.policy.counted:
            return
        state = self._state
        self._account.take(event)
        if ev.is_of_subagent(event):
            # Its own engine has recorded it and charged its costs to this one; this session file has a copy.
            self._setup.store.record(event)
            self._stop_at_budget(event)
            if isinstance(event, ev.FeatureDropped):
                self._drop_feature(event)
            return
        if event.policy.counted:
            self._setup.watch.note(event)
            state.costs.take(event)
        state.log.keep(event)
        if event.policy.counted:
            self._apply(event)
        if self._recording is None:
            self._recording = asyncio.get_running_loop().call_later(RECORD_SECONDS, self._write_due)

    def _apply(self, event: ev.Event) -> None:
        """Change the state of the conversation as a recorded event says."""
        state = self._state
        state.context.take(event)
        self._stop_at_budget(event)
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.QUEUED and self._setup.link is None:
                # Rights of skills end with the prompt they were loaded for; a command's last for the submission.
                defined = self._work.defined
                label = defined.definition.origin.label if defined is not None else ""
                self._setup.permissions.take_back(but_from=label)
            case ev.DirectoryChanged():
                state.tool_context = replace(state.tool_context, cwd=type(state.tool_context.cwd)(event.cwd))
            case ev.TodosChanged():
                state.todos = event.todos
            case ev.FeatureDropped():
                self._drop_feature(event)
            case ev.LoopContinued():
                self._has_unsynced_turn = True

    def _drop_feature(self, event: ev.FeatureDropped) -> None:
        if event.feature == Feature.DEFERRED_TOOLS.value:
            self._state.loaded_tools.is_refused = True
        elif event.feature == Feature.FAST_MODE.value:
            self._state.settings.without_fast_mode.add(event.model)

    def _write_due(self) -> None:
        """Write the records that could wait; after a turn, also start a sync to disk."""
        if self._recording is not None:
            self._recording.cancel()
            self._recording = None
        if self._has_unsynced_turn:
            self._has_unsynced_turn = False
            self._setup.store.sync_soon()
        else:
            self._setup.store.write_due()

    def _stop_at_budget(self, event: ev.Event) -> None:
        """Abort a non-interactive submission whose budget is spent. An interactive one asks before the next request."""
        state = self._state
        if isinstance(event, ev.UsageReported) and state.costs.is_budget_spent and not state.interactive:
            self._controller.abort(AbortReason.BUDGET)

    def _complete_log(self) -> None:
        """Complete the log after any end: with the prompt and a result for every call (I1). Apply pending edits."""
        log, prompt = self._state.log, self._prompt
        self._state.context.request_ended()
        if prompt is not None and self._blocked is None and not log.has(prompt.id):
            log.keep(ev.MessageAppended(message=prompt))
        if prompt is not None and self._unchecked:
            self._setup.store.record(self._leave_out(prompt))
        last = log.messages[-1] if log.messages else None
        if last is None or not last.tool_uses:
            return
        blocks = tuple(ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in last.tool_uses)
        results = Message("user", blocks, self._setup.ids.new(), Origin.TOOL_RESULTS)
        log.keep(ev.MessageAppended(message=results))
