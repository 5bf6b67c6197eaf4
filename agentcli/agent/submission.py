"""One submission: a prompt, a compaction or a command, from its start to its one `Result` (SPEC 1, L1).

Every event is taken in (log, session file, totals) before a consumer sees it, so nothing is shown as done that a crash
could lose, but for records that wait a few milliseconds for the next request (`ConversationLog`); the last event is
always exactly one `Result`, whatever happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace

from agentcli.agent.context.compaction import Compaction, Shortening
from agentcli.agent.conversation_state import ConversationState
from agentcli.agent.costs.account import Account
from agentcli.agent.definition_rights import lend_rights
from agentcli.agent.hook_call import HookCall, hook_message
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import budget_stop
from agentcli.agent.loop.run_loop import run_loop
from agentcli.agent.loop_setup import ask_about_budget, loop_dependencies, mentions_for
from agentcli.agent.loop_state import EndReason, LoopState, Stop
from agentcli.agent.ports import PromptVerdict
from agentcli.agent.prompt_expansion import DefinedPrompt, PromptExpansion
from agentcli.agent.prompt_queue import prompt_blocks
from agentcli.agent.requested_prompt import RequestedPrompt
from agentcli.agent.updates.undo_notes import COMMAND_FAILED
from agentcli.context.normalise import MISSING_RESULT
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortReason
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.messages import EXPANDED, TYPED, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.permission import PermissionMode
from agentcli.providers.body import Feature
from agentcli.providers.catalog import nearest_effort

RECORD_SECONDS = 0.01
"""From an event whose record can wait to writing it, and to the sync of a turn's records: by then the next request has
been sent, which they would delay."""
_REQUEST_SECONDS = 0.05
"""Time in which the first request has been sent: what is imported before that would delay it."""
_ONLY_SHOWN = frozenset(
    (
        ev.BlockStarted,
        ev.TextStreamed,
        ev.ThinkingStreamed,
        ev.ToolInputStreamed,
        ev.RawStreamed,
        ev.ToolProgressed,
        ev.ToolResultAdded,
        ev.PermissionDecided,
    )
)
"""Events of which nothing is kept: most of those of a turn."""
_ONLY_RECORDED = frozenset((ev.BlockFinished, ev.ToolStarted, ev.ToolFinished))
"""Events that nothing is counted from."""
_BEFORE_NEXT_REQUEST = frozenset(
    (
        ev.BlockStarted,
        ev.ToolInputStreamed,
        ev.BlockFinished,
        ev.UsageReported,
        ev.PrefixBroken,
        ev.MessageAppended,
        ev.PermissionDecided,
        ev.ToolStarted,
        ev.ToolResultAdded,
        ev.ContextEdited,
        ev.LoopContinued,
        ev.RequestStarted,
    )
)
"""Events that another one follows soon, behind which notices are looked for: doing so would delay the request."""
PROMPT_BLOCKED = "prompt_blocked"
"""Terminal of a submission whose prompt a hook blocked."""


@frozen
class SubmissionWork:
    """The work of a submission: one of `prompt`, `defined`, `requested`, `compaction` and `command`."""

    prompt: Message | None = None
    defined: DefinedPrompt | None = None
    """Becomes the prompt when the submission has begun."""
    requested: RequestedPrompt | None = None
    """So does this one."""
    mentions: str | None = None
    """The text whose `@path` mentions are attached; None: the prompt's own."""
    compaction: Shortening | None = None
    command: AsyncGenerator[ev.Event, None] | None = None


class Submission:
    def __init__(self, state: ConversationState, task: SubmissionWork) -> None:
        own = state.conversation
        self._state = state
        self._own = own
        self._task = task
        self._controller = AbortController()
        self._signal = self._controller.signal
        self._hook_texts: tuple[str, ...] = ()
        """What hooks have for the model beside the prompt."""
        self._blocked: str | None = None
        """Why hooks blocked the prompt."""
        self._unchecked = False
        """Hooks have to check the prompt and have not answered."""
        self._recording: asyncio.TimerHandle | None = None
        self._has_unsynced_turn = False
        self._prompt = task.prompt
        self._mentions = task.mentions
        """The text whose `@path` mentions are attached; None: the prompt's own."""
        sends_prompt = task.prompt is not None or task.defined is not None or task.requested is not None
        wants_structured = own.wants_structured and sends_prompt
        self._account = Account(own.clock, wants_structured, began=own.clock.monotonic())

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        state, own, account = self._state, self._own, self._account
        if state.controller is not None:
            raise RuntimeError("a submission is running; use enqueue() or abort() first")
        state.controller = self._controller
        state.is_model_working = self._task.command is None
        # A background agent may have loaded a skill since the last one.
        self._take_back_rights()
        try:
            try:
                async with aclosing(self._work()) as events:
                    async for event in events:
                        self._take(event)
                        yield event
            except Exception as error:
                logging.getLogger("agentcli").exception("the submission failed")
                text = f"agentcli itself failed: {type(error).__name__}: {error}. You can continue the conversation."
                account.ended = ev.LoopEnded(terminal=EndReason.MODEL_ERROR.value, turns=0, text=text)
        finally:
            self._complete_log()
            self._record_due()
            try:
                await own.extensions.workspace.end(self._signal.reason is AbortReason.SHUTDOWN)
            finally:
                state.controller = None
                state.is_model_working = False
                self._take_back_rights()
        result = account.result(state.costs.totals, own.catalog, own.store.session_id, own.ids.new())
        running = [task.report() for task in state.background.tasks if task.status == "running"]
        result = replace(result, background_tasks=running)
        state.denials += account.denials
        if state.log.messages:
            # A command alone makes no session that --continue would then find.
            own.store.record(result)
            own.store.sync()
        yield result

    def _take_back_rights(self) -> None:
        """End the rights of commands and skills. An agent shares them with the submission that it works for."""
        if self._own.link is None:
            self._own.permissions.take_back()

    # ------------------------------------------------------------------------------------------------------ the work

    async def _work(self) -> AsyncGenerator[ev.Event, None]:
        """Everything between the start of the submission and its Result."""
        await self._refresh_definitions()
        yield self._started()
        for notice in (*self._state.take_notices(), *self._state.take_definition_problems()):
            yield notice
        with self._model_of_definition() as notices:
            for notice in notices:
                yield notice
            async with aclosing(self._work_on_prompt()) as events:
                async for event in events:
                    yield event

    async def _work_on_prompt(self) -> AsyncGenerator[ev.Event, None]:
        state, own = self._state, self._own
        async with aclosing(self._prepare_prompt()) as events:
            async for event in events:
                yield event
                if isinstance(event, ev.LoopEnded):
                    return
        prompt = self._prompt
        if prompt is not None and (note := await state.files.take_undo_note(state.log.holding)):
            state.user_notes.add(note)
        for message in state.user_notes.take():
            yield ev.MessageAppended(message=message)
        if prompt is not None:
            own.extensions.workspace.begin(prompt.id)
            yield ev.MessageAppended(message=prompt)
            if own.link is None:
                state.log.record_mode(own.permissions.mode.value)
            if self._unchecked:
                yield self._leave_out(prompt)
            if own.permissions.mode is PermissionMode.DEFAULT and (offer := own.offer()):
                yield ev.NoticeRaised(text=offer, code="auto-mode")
        if self._task.command is None:
            async with aclosing(ask_about_budget(state, self._controller)) as events:
                async for event in events:
                    yield event
        async with aclosing(self._main_work()) as events:
            async for event in events:
                yield event
                if type(event) not in _BEFORE_NEXT_REQUEST:
                    for late in self._late_notices():
                        yield late

    async def _prepare_prompt(self) -> AsyncGenerator[ev.Event, None]:
        """Expand the prompt and ask the hooks about it. A `LoopEnded` means that it is not sent."""
        if self._task.defined is not None:
            async with aclosing(self._expand(self._task.defined)) as events:
                async for event in events:
                    yield event
        if self._task.requested is not None:
            async with aclosing(self._request(self._task.requested)) as events:
                async for event in events:
                    yield event
        if self._prompt is None:
            return
        async with aclosing(self._ask_hooks(self._prompt)) as events:
            async for event in events:
                yield event
        if self._blocked is not None:
            yield ev.LoopEnded(terminal=PROMPT_BLOCKED, turns=0, text=words.prompt_blocked(self._blocked))

    def _main_work(self) -> AsyncGenerator[ev.Event, None]:
        task = self._task
        if task.command is not None:
            return self._run_command(task.command)
        if self._prompt is not None:
            return self._answer_prompt(self._prompt)
        return self._compact(task.compaction or Shortening())

    async def _expand(self, defined: DefinedPrompt) -> AsyncGenerator[ev.Event, None]:
        """Make the prompt that a file defines. Without one the submission ends here."""
        state, own = self._state, self._own
        if defined.runs_commands:
            # Recorded before the commands, whose calls would stand before the prompt otherwise.
            own.store.record(ev.CommandEntered(text=defined.typed))
        for text in lend_rights(defined.definition, own.permissions):
            yield ev.NoticeRaised(text=text, level="warning", code="definitions")
        runner = loop_dependencies(state, self._controller).turn.runner
        expansion = PromptExpansion(defined, runner, state.tool_context, self._signal)
        async with aclosing(expansion.run()) as events:
            async for event in events:
                yield event
        self._prompt, self._mentions = expansion.message, expansion.mentions
        if expansion.message is not None:
            return
        if not defined.runs_commands:
            # Without its prompt nothing else would show again what was typed.
            own.store.record(ev.CommandEntered(text=defined.typed))
        if self._signal.aborted:
            yield ev.LoopEnded(terminal=EndReason.ABORTED_TOOLS.value, turns=0, text="")
            return
        yield ev.NoticeRaised(text=expansion.problem, level="error", code="command")
        yield ev.LoopEnded(terminal=COMMAND_FAILED, turns=0, text=expansion.problem)

    async def _request(self, requested: RequestedPrompt) -> AsyncGenerator[ev.Event, None]:
        """Get the prompt. Without one the submission ends here."""
        own = self._own
        try:
            content = prompt_blocks(await self._signal.run(requested.request()))
        except (Aborted, AgentError) as error:
            # Without its prompt nothing else would show again what was typed.
            own.store.record(ev.CommandEntered(text=requested.typed))
            if isinstance(error, Aborted):
                yield ev.LoopEnded(terminal=EndReason.ABORTED_TOOLS.value, turns=0, text="")
                return
            yield ev.NoticeRaised(text=str(error), level="error", code="command")
            yield ev.LoopEnded(terminal=COMMAND_FAILED, turns=0, text=str(error))
            return
        made_from = {"kind": requested.kind, "name": requested.name, "file": requested.name}
        meta = {TYPED: requested.typed, EXPANDED: made_from}
        self._prompt = Message("user", content, own.ids.new(), Origin.PROMPT, meta=meta)
        self._mentions = requested.mentions

    @contextmanager
    def _model_of_definition(self) -> Iterator[list[ev.NoticeRaised]]:
        """Use the model that a file names, for this submission only. Gives notices about it."""
        settings, defined = self._state.settings, self._task.defined
        wanted = defined.definition.model if defined is not None else ""
        info = self._own.catalog.get(wanted or settings.profile.model)
        before = settings.profile
        if defined is None or wanted in ("", "inherit") or info.id == self._own.catalog.resolve(before.model):
            yield []
            return
        effort = nearest_effort(info, before.effort)[0] if before.effort is not None else None
        changed = replace(before, model=info.id, effort=effort)
        note = self._state.context.price_of_change(changed).note
        text = f"This prompt uses {info.id}, as {defined.definition.origin.label} says. {note}".rstrip()
        settings.profile = changed
        try:
            yield [ev.NoticeRaised(text=text, code="definitions")]
        finally:
            # Unless the user has chosen another one meanwhile.
            if settings.profile.model == info.id:
                settings.profile = replace(settings.profile, model=before.model, effort=before.effort)

    async def _answer_prompt(self, prompt: Message) -> AsyncGenerator[ev.Event, None]:
        """Add what hooks, mentioned files and attachments have for a prompt, then run the loop."""
        state, own, signal = self._state, self._own, self._signal
        await self._complete_system()
        if own.permissions.is_late and own.link is None:
            state.detach(own.permissions.warm(after=_REQUEST_SECONDS))
        if self._hook_texts:
            yield ev.MessageAppended(message=hook_message(self._hook_texts, own.ids.new()))
        mentions = mentions_for(own, state.questions)
        if mentions is not None:
            text = prompt.text if self._mentions is None else self._mentions
            async with aclosing(mentions.attach(text, state.tool_context, signal)) as events:
                async for event in events:
                    yield event
        attached: Sequence[Message] = ()
        with suppress(Aborted):
            attached = await signal.run(state.attachments.collect(self._loop_state()))
        for message in attached:
            yield ev.MessageAppended(message=message)
        tracking = replace(state.context.compact_tracking, turn_of_last=None)
        loop = run_loop(
            loop_dependencies(state, self._controller), replace(self._loop_state(), compact=tracking), signal
        )
        async with aclosing(loop) as events:
            async for event in events:
                yield event

    async def _ask_hooks(self, prompt: Message) -> AsyncGenerator[ev.Event, None]:
        """Run the hooks of the session's start, before its first prompt, and of this prompt."""
        state, signal = self._state, self._signal
        source = self._own.session_source
        begun = HookCall[tuple[str, ...]](state.hooks, lambda hooks: hooks.before_session(source), signal, ())
        asking = HookCall(state.hooks, lambda hooks: hooks.before_prompt(prompt.text), signal, PromptVerdict())
        texts: tuple[str, ...] = ()
        self._unchecked = state.hooks.checks_prompts
        with suppress(Aborted):
            if state.session_hooks is not None:
                task, state.session_hooks = state.session_hooks, None
                texts = await signal.run(task)
            elif not state.session_begun:
                state.session_begun = True
                async with aclosing(begun.run()) as events:
                    async for event in events:
                        yield event
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
            self._unchecked = False
        self._hook_texts = (*texts, *begun.verdict, *asking.verdict.context)
        self._blocked = asking.verdict.blocked

    def _leave_out(self, prompt: Message) -> ev.RequestRepaired:
        """Keep a prompt in the log, where the user sees it, and out of later requests: hooks might have blocked it."""
        self._unchecked = False
        self._own.view.repair("leave_out_unchecked", prompt.id)
        return ev.RequestRepaired(repair="leave_out_unchecked", through=prompt.id, text=words.PROMPT_UNCHECKED)

    async def _refresh_definitions(self) -> None:
        own = self._own
        if own.definitions is not None or own.plugins is not None:
            with suppress(Aborted):
                await self._signal.run(self._state.refresh_definitions())
        self._state.use_plugins()

    def _loop_state(self) -> LoopState:
        self._state.log.take_in()
        return LoopState(self._state.log.messages, self._state.tool_context)

    async def _complete_system(self) -> None:
        """Complete the system prompt before the first request, and load meanwhile what that request needs."""
        state, complete_system = self._state, self._state.late_system
        if complete_system is not None:
            state.detach(self._own.provider.warm())
            with suppress(Aborted):
                complete = await self._signal.run(in_thread(complete_system))
                state.settings.profile = replace(state.settings.profile, system=complete())
                state.late_system = None

    async def _run_command(self, command: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        problem = ""
        async with aclosing(command) as events:
            async for event in events:
                if isinstance(event, ev.NoticeRaised) and event.level == "error":
                    problem = event.text
                yield event
        for message in self._state.user_notes.take():
            yield ev.MessageAppended(message=message)
        yield ev.LoopEnded(terminal=COMMAND_FAILED if problem else EndReason.COMPLETED.value, turns=0, text=problem)

    async def _compact(self, shortening: Shortening) -> AsyncGenerator[ev.Event, None]:
        state = self._state
        review = state.questions if shortening.review and state.interactive else None
        dependencies = loop_dependencies(state, self._controller)
        compaction = Compaction(
            dependencies.for_compaction(), "manual", state.log.messages, self._signal, shortening.focus, review
        )
        async with aclosing(compaction.run()) as events:
            async for event in events:
                yield event
        stop = Stop(EndReason.COMPLETED, compaction.problem or "")
        if self._signal.reason is AbortReason.BUDGET:
            stop = budget_stop(dependencies.limits)
        elif not compaction.messages and not compaction.cancelled:
            stop = replace(
                stop, terminal=EndReason.ABORTED_STREAMING if self._signal.aborted else EndReason.MODEL_ERROR
            )
        yield ev.LoopEnded(terminal=stop.terminal.value, turns=0, text=stop.text)

    def _started(self) -> ev.SessionStarted:
        state, own = self._state, self._own
        profile = state.settings.profile
        return ev.SessionStarted(
            session_id=own.store.session_id,
            cwd=str(state.tool_context.root),
            model=own.catalog.resolve(profile.model),
            tools=list(state.registry.names),
            permission_mode=own.permissions.mode.value,
            api_key_source=own.api_key_source,
            effort=profile.effort or "",
            sandbox=state.tool_context.launcher.level,
            commands=[
                *(own.definitions.commands if own.definitions is not None else ()),
                *(sorted(own.plugins.active.commands) if own.plugins is not None else ()),
            ],
            skills=list(own.definitions.skills) if own.definitions is not None else [],
            output_style=own.output_style,
            agents=sorted(state.agents.available()),
            plugins=own.plugins.collection.in_use() if own.plugins is not None else [],
            mcp_servers=own.mcp.statuses() if own.mcp is not None else [],
            mcp_prompts=own.mcp.prompt_commands() if own.mcp is not None else [],
        )

    def _late_notices(self) -> Iterator[ev.Event]:
        """Notices that have come up beside the work, each once."""

        def warning(text: str, code: str) -> ev.NoticeRaised:
            return ev.NoticeRaised(text=text, level="warning", code=code)

        own, state = self._own, self._state
        while own.instruction_notices:
            yield warning(own.instruction_notices.pop(0), "instructions")
        while (text := own.store.take_notice()) is not None:
            yield warning(text, "session")
        if own.link is not None:
            return  # The rest is about the whole session, which reports it itself.
        while (text := own.permissions.take_notice()) is not None:
            yield ev.NoticeRaised(text=text, code="permissions")
        while (text := own.extensions.workspace.take_notice()) is not None:
            yield warning(text, "undo")
        while (text := state.tool_context.launcher.take_notice()) is not None:
            yield warning(text, "quarantine")
        if own.plugins is not None:
            yield from own.plugins.take_notices()
        if state.server_notices is not None:
            yield from state.server_notices.take()
        yield from state.background.take_changes()
        if (text := state.costs.take_budget_warning()) is not None:
            yield warning(text, "budget")

    # -------------------------------------------------------------------------------------------------- taking it in

    def _take(self, event: ev.Event) -> None:
        """Take an event in before a consumer sees it: log, session file, totals, budget."""
        if type(event) in _ONLY_SHOWN:
            return
        state = self._state
        self._account.take(event)
        if ev.is_of_subagent(event):
            # Its own engine has taken it in, and has charged its costs to this one. The session file gets its frame.
            self._own.store.record(event)
            self._stop_at_budget(event)
            return
        is_counted = type(event) not in _ONLY_RECORDED
        if is_counted:
            self._own.watch.note(event)
            state.costs.take(event)
        state.log.keep(event)
        if is_counted:
            self._follow(event)
        if self._recording is None:
            self._recording = asyncio.get_running_loop().call_later(RECORD_SECONDS, self._record_due)

    def _follow(self, event: ev.Event) -> None:
        """Do what an event asks for once it is in the log."""
        state = self._state
        state.context.take(event)
        self._stop_at_budget(event)
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.QUEUED and self._own.link is None:
                # Skills were loaded for the prompt before it; a command's own rights last as long as the submission.
                defined = self._task.defined
                own = defined.definition.origin.label if defined is not None else ""
                self._own.permissions.take_back(but_from=own)
            case ev.DirectoryChanged():
                state.tool_context = replace(state.tool_context, cwd=type(state.tool_context.cwd)(event.cwd))
            case ev.TodosChanged():
                state.todos = event.todos
            case ev.FeatureDropped(feature=Feature.DEFERRED_TOOLS.value):
                state.loaded_tools.is_refused = True
            case ev.LoopContinued():
                self._has_unsynced_turn = True

    def _record_due(self) -> None:
        """Write what can wait. After a turn, also force it to the disk, without waiting for that."""
        if self._recording is not None:
            self._recording.cancel()
            self._recording = None
        if self._has_unsynced_turn:
            self._has_unsynced_turn = False
            self._own.store.sync_soon()
        else:
            self._own.store.write_due()

    def _stop_at_budget(self, event: ev.Event) -> None:
        """In an interactive session the reply continues, and the user is asked before the next request."""
        state = self._state
        if isinstance(event, ev.UsageReported) and state.costs.is_budget_spent and not state.interactive:
            self._controller.abort(AbortReason.BUDGET)

    def _complete_log(self) -> None:
        """However it ended: the log has the prompt and a result for every call (I1), and pending changes apply."""
        log, prompt = self._state.log, self._prompt
        self._state.context.request_ended()
        if prompt is not None and self._blocked is None and not log.has(prompt.id):
            log.keep(ev.MessageAppended(message=prompt))
        if prompt is not None and self._unchecked:
            self._own.store.record(self._leave_out(prompt))
        last = log.messages[-1] if log.messages else None
        if last is None or not last.tool_uses:
            return
        blocks = tuple(ToolResultBlock(use.id, (TextBlock(MISSING_RESULT),), is_error=True) for use in last.tool_uses)
        results = Message("user", blocks, self._own.ids.new(), Origin.TOOL_RESULTS)
        log.keep(ev.MessageAppended(message=results))
