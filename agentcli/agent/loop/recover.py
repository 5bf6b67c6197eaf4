"""The I/O around the decision: find the facts that `decide` needs, and add the messages of each transition and
terminal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.context.compaction import Compaction
from agentcli.agent.hooks.call import HookCall, hook_message
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import Find, TurnOutcome
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.repetition import LoopQuestion
from agentcli.agent.loop_state import Continue, EndReason, LoopState, Stop, Transition, next_state
from agentcli.agent.ports import PromptVerdict, StopVerdict
from agentcli.agent.prompt_queue import Priority, QueuedPrompt
from agentcli.agent.toolcalls.refusals import refused_again
from agentcli.context.compact import pinned_now
from agentcli.core import events as ev
from agentcli.core.abort import Aborted, AbortReason, AbortSignal
from agentcli.core.ids import Ids
from agentcli.core.messages import ATTACHMENT, EXTENDS_ANSWER, Message, Origin, user_message


class FactCheck:
    """Finds out one fact for the decision. Results: `state` and `outcome` with the fact in it."""

    def __init__(
        self,
        dependencies: LoopDependencies,
        state: LoopState,
        outcome: TurnOutcome,
        find: Find,
        signal: AbortSignal,
    ) -> None:
        self._dependencies = dependencies
        self._find = find
        self._signal = signal
        self.state = state
        self.outcome = outcome

    def run(self) -> AsyncGenerator[ev.Event, None]:
        match self._find.fact:
            case "collapse_drain":
                return self._drain_collapses()
            case "reactive_compact":
                return self._compact()
            case "loop_verdict":
                return self._ask_about_loop()
            case "stop_hooks":
                return self._run_stop_hooks()
            case "queued_prompts":
                return self._take_prompts()

    async def _drain_collapses(self) -> AsyncGenerator[ev.Event, None]:
        log, compaction = self.state.messages, self._dependencies.compaction
        edited = self._dependencies.extensions.collapser.drain(log, pinned_now(log, compaction.pinned))
        self.outcome = replace(self.outcome, collapses_committed=len(edited.edits) if edited else 0)
        if edited is not None:
            view = compaction.view
            self._dependencies.pipeline.broken_by(view, log, edited, view.estimate(log, compaction.overhead))
            yield edited

    async def _compact(self) -> AsyncGenerator[ev.Event, None]:
        dependencies, signal = self._dependencies, self._signal
        compaction = Compaction(
            dependencies.for_compaction(self.state.budget_spent), "reactive", self.state.messages, signal
        )
        async with aclosing(compaction.run()) as events:
            async for event in events:
                yield event
        self.state = replace(self.state.adding(*compaction.messages), reactive_compact_attempted=True)
        if compaction.messages:
            self.state = self.state.with_budget_carried(self.outcome.output_tokens)
            for message in await attachments_now(dependencies, self.state, signal):
                self.state = self.state.adding(message)
                yield ev.MessageAppended(message=message)
        self.outcome = replace(
            self.outcome, compacted=bool(compaction.messages), summary=compaction.summary, aborted=signal.reason
        )

    async def _ask_about_loop(self) -> AsyncGenerator[ev.Event, None]:
        assert self.outcome.repetition is not None
        turn = self._dependencies.turn
        question = LoopQuestion(
            self.outcome.repetition, turn.runner.title, turn.runner.questions, turn.ids, self._signal
        )
        async with aclosing(question.run()) as events:
            async for event in events:
                yield event
        if question.verdict is None:
            self.outcome = replace(self.outcome, aborted=self._signal.reason, aborted_in="tools")
        else:
            self.outcome = replace(self.outcome, loop_verdict=question.verdict)

    async def _run_stop_hooks(self) -> AsyncGenerator[ev.Event, None]:
        hooks, state = self._dependencies.extensions.hooks, self.state
        asking = HookCall(hooks, lambda hooks: hooks.before_stop(state), self._signal, StopVerdict())
        try:
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
            self.outcome = replace(self.outcome, stop_hooks=asking.verdict)
        except Aborted as abort:
            self.outcome = replace(self.outcome, aborted=abort.reason)

    async def _take_prompts(self) -> AsyncGenerator[ev.Event, None]:
        intake = PromptIntake(self._dependencies, self.state, "later", self._signal)
        async with aclosing(intake.run()) as events:
            async for event in events:
                yield event
        self.state = intake.state
        self.outcome = replace(self.outcome, prompts_taken=intake.has_taken, aborted=self._signal.reason)


class PromptIntake:
    """Moves queued prompts to the log. Results: `state` with their messages, and `has_taken`.

    Each prompt moves at its own event: an abort at any other point leaves it queued.
    """

    def __init__(self, dependencies: LoopDependencies, state: LoopState, most: Priority, signal: AbortSignal) -> None:
        self._dependencies = dependencies
        self._most: Priority = most
        self._signal = signal
        self.state = state
        self.has_taken = False

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        queue = self._dependencies.queue
        while (prompt := queue.first(self._most)) is not None:
            async with aclosing(self._take_in(prompt)) as events:
                async for event in events:
                    yield event
            if queue.first(self._most) is prompt:
                break  # an abort has left it queued

    async def _take_in(self, prompt: QueuedPrompt) -> AsyncGenerator[ev.Event, None]:
        """Move a queued prompt to the log, unless hooks block it."""
        dependencies, queue = self._dependencies, self._dependencies.queue
        hooks = dependencies.extensions.hooks
        asking = HookCall(hooks, lambda hooks: hooks.before_prompt(prompt.text), self._signal, PromptVerdict())
        try:
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
        except Aborted:
            return
        if prompt.id not in queue.ids:
            return  # the user has withdrawn it in the meantime
        if asking.verdict.blocked is not None:
            queue.remove(prompt.id)
            text = words.prompt_blocked(asking.verdict.blocked)
            yield ev.NoticeRaised(text=text, level="warning", code="hook")
            return
        self.has_taken = True
        yield self._added(Message("user", prompt.content, prompt.id, Origin.QUEUED))
        queue.remove(prompt.id)
        if asking.verdict.context:
            yield self._added(hook_message(asking.verdict.context, dependencies.turn.ids.new()))
        async with aclosing(_mentioned(dependencies, self.state, prompt, self._signal)) as events:
            async for event in events:
                yield self._added(event.message) if isinstance(event, ev.MessageAppended) else event

    def _added(self, message: Message) -> ev.MessageAppended:
        self.state = self.state.adding(message)
        return ev.MessageAppended(message=message)


class Continuation:
    """Adds what the next request needs to the log (SPEC 2.6): recovery messages, queued prompts, attachments. Result:
    `next_state`."""

    def __init__(
        self,
        dependencies: LoopDependencies,
        state: LoopState,
        outcome: TurnOutcome,
        decision: Continue,
        signal: AbortSignal,
    ) -> None:
        self._dependencies = dependencies
        self._outcome = outcome
        self._decision = decision
        self._signal = signal
        self._state = state
        self.next_state = state

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        before, dependencies, decision, signal = self._state, self._dependencies, self._decision, self._signal
        transition = decision.transition
        has_results = transition is Transition.NEXT_TURN and bool(self._outcome.tool_results)
        if has_results and (summary := dependencies.summarise_tools(self._outcome.added, signal)) is not None:
            self._state = self._state.with_summary(summary)
        for message in transition_messages(decision, before, self._outcome, dependencies.turn.ids):
            yield self._added(message)
        if has_results or transition in (Transition.STOP_HOOK_BLOCKING, Transition.TOKEN_BUDGET_CONTINUATION):
            intake = PromptIntake(dependencies, self._state, "next", signal)
            async with aclosing(intake.run()) as events:
                async for event in events:
                    yield event
            self._state = intake.state
        if has_results or decision.data.get("reason") == "queued_prompts":
            for message in await attachments_now(dependencies, before, signal):
                yield self._added(message)
        self.next_state = next_state(self._state, decision, self._outcome.output_tokens)
        yield ev.LoopContinued(transition=transition.value, turn=self.next_state.turn_count, data=dict(decision.data))

    def _added(self, message: Message) -> ev.MessageAppended:
        self._state = self._state.adding(message)
        return ev.MessageAppended(message=message)


class Ending:
    """Adds the messages of a terminal to the log, ends the background work and yields `LoopEnded`."""

    def __init__(self, dependencies: LoopDependencies, state: LoopState, outcome: TurnOutcome, stop: Stop) -> None:
        self._dependencies = dependencies
        self._state = state
        self._outcome = outcome
        self._stop = stop

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        dependencies, stop, outcome = self._dependencies, self._stop, self._outcome
        for prompt in refused_prompts(self._state) if outcome.refused is not None else ():
            dependencies.compaction.view.repair("leave_out_prompt", prompt)
            yield ev.RequestRepaired(repair="leave_out_prompt", through=prompt, text=stop.text)
        failed = stop.terminal is EndReason.PROMPT_TOO_LONG or outcome.failure is not None
        if failed and outcome.aborted is None:
            dependencies.detach_hook(dependencies.extensions.hooks.after_failure(stop.text))
        for message in terminal_messages(stop, outcome, dependencies.turn.ids):
            yield ev.MessageAppended(message=message)
        await dependencies.aclose()
        for late in (*dependencies.take_late_events(), *self._state.take_summaries()):
            yield late
        failure = outcome.failure
        yield ev.LoopEnded(
            terminal=stop.terminal.value,
            turns=self._state.turn_count,
            text=stop.text,
            status=failure.status if failure else None,
            stop_reason=outcome.stop_reason,
            retryable=bool(failure and failure.retryable),
            final=outcome.final,
        )


def transition_messages(decision: Continue, state: LoopState, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """The messages of agentcli to the model that a transition needs."""
    match decision.transition:
        case Transition.COLLAPSE_DRAIN_RETRY | Transition.REACTIVE_COMPACT_RETRY if outcome.context_exceeded:
            replies = (m for m in reversed(state.messages) if m.origin is Origin.REPLY and not m.is_copy)
            cut = next(replies, None)
            if cut is None or cut.stop_reason != "model_context_window_exceeded":
                return ()  # The reply had no text and was not kept.
            text = words.context_recovery(cut.text)
        case Transition.MAX_OUTPUT_TOKENS_RECOVERY:
            text = words.OUTPUT_RECOVERY
        case Transition.TOKEN_BUDGET_CONTINUATION:
            text = words.token_budget(decision.data["remaining"])
            return (user_message(text, ids.new(), Origin.RECOVERY, {EXTENDS_ANSWER: True}),)
        case Transition.STOP_HOOK_BLOCKING if decision.data.get("by") == "schema":
            text = "\n".join(decision.data["errors"])
        case Transition.STOP_HOOK_BLOCKING:
            return (user_message(words.stop_hook(decision.data["errors"]), ids.new(), Origin.HOOK),)
        case Transition.NEXT_TURN if decision.data.get("reason") == "empty_reply":
            text = words.EMPTY_REPLY
        case Transition.NEXT_TURN if decision.data.get("loop") == "advised":
            text = refused_again(decision.data["name"], decision.data["times"])
        case Transition.NEXT_TURN if decision.data.get("loop") == "told":
            text = words.repeated(decision.data["name"], decision.data["times"])
        case Transition.NEXT_TURN if decision.data.get("loop") == "polling":
            text = words.polled(decision.data["name"], decision.data["times"], decision.data["seconds"])
        case Transition.NEXT_TURN if decision.data.get("said"):
            return (user_message(decision.data["said"], ids.new(), Origin.QUEUED),)
        case _:
            return ()
    return (user_message(text, ids.new(), Origin.RECOVERY),)


def terminal_messages(stop: Stop, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """The messages that a terminal leaves in the log (the last column of SPEC 2.7's table)."""
    match stop.terminal:
        case EndReason.COMPLETED | EndReason.MAX_BUDGET_USD:
            return ()
        case EndReason.ABORTED_STREAMING | EndReason.ABORTED_TOOLS:
            if outcome.aborted is AbortReason.INTERRUPT:
                return ()
            in_tools = stop.terminal is EndReason.ABORTED_TOOLS
            text = words.INTERRUPTED_TOOLS if in_tools else words.INTERRUPTED
            text = words.CLOSED if outcome.aborted is AbortReason.SHUTDOWN else text
            return (user_message(text, ids.new(), Origin.INTERRUPTION),)
        case EndReason.MAX_TURNS:
            reached = {ATTACHMENT: dict(stop.attachment)}
            return (user_message(f"[{stop.text}]", ids.new(), Origin.ATTACHMENT, reached),)
        case _:
            meta = {"terminal": stop.terminal.value, "kind": outcome.failure.kind.value if outcome.failure else ""}
            return (user_message(stop.text, ids.new(), Origin.ERROR, meta),)


async def _mentioned(
    dependencies: LoopDependencies, state: LoopState, prompt: QueuedPrompt, signal: AbortSignal
) -> AsyncGenerator[ev.Event, None]:
    """Attach the files that a queued prompt mentions, without asking: a question would hold up the running work."""
    if dependencies.mentions is None:
        return
    text = prompt.text if prompt.mentions is None else prompt.mentions
    async with aclosing(dependencies.mentions.attach(text, state.tool_context, signal, may_ask=False)) as events:
        async for event in events:
            yield event


async def attachments_now(dependencies: LoopDependencies, state: LoopState, signal: AbortSignal) -> tuple[Message, ...]:
    """Collect attachments, also right after a compaction, which may have removed some."""
    attachments = dependencies.extensions.attachments
    if not attachments.waits and not signal.aborted:
        # Avoid a task, which costs two iterations of the event loop.
        return tuple(await attachments.collect(state))
    try:
        return tuple(await signal.run(attachments.collect(state)))
    except Aborted:
        return ()


def refused_prompts(state: LoopState) -> list[str]:
    """Ids of this submission's prompts: the model declined one of them, so none is sent again unchanged."""
    ids = []
    for message in reversed(state.messages):
        if message.origin in (Origin.PROMPT, Origin.QUEUED):
            ids.append(message.id)
        if message.origin is Origin.PROMPT:
            break
    return ids
