"""The I/O behind the decision: facts that `decide` asks for, and the messages that each way on or out leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.context.compaction import Compaction
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import Find, TurnOutcome
from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.repetition import LoopQuestion
from agentcli.agent.loop.state import Continue, LoopState, Stop, Terminal, Transition
from agentcli.agent.prompt_queue import QueuedPrompt
from agentcli.agent.toolcalls.refusals import refused_again
from agentcli.context.compact import pinned_now
from agentcli.core import events as ev
from agentcli.core.abort import Aborted, AbortReason, AbortSignal
from agentcli.core.ids import Ids
from agentcli.core.messages import Message, Origin, user_message


class Finding:
    """Find out one fact. `run()` yields what happened; then `state` and `outcome` know it."""

    def __init__(self, parts: LoopParts, state: LoopState, outcome: TurnOutcome) -> None:
        self._parts = parts
        self.state = state
        self.outcome = outcome

    async def run(self, find: Find, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        if find.fact == "collapse_drain":
            log, compact = self.state.messages, self._parts.compact
            edited = self._parts.seams.collapser.drain(log, pinned_now(log, compact.pinned))
            self.outcome = replace(self.outcome, collapses_committed=len(edited.edits) if edited else 0)
            if edited is not None:
                self._parts.pipeline.broken_by(compact.view, log, edited, compact.view.estimate(log, compact.overhead))
                yield edited
        elif find.fact == "reactive_compact":
            compaction = Compaction(replace(self._parts.compacting, budget_spent=self.state.budget_spent), "reactive")
            async with aclosing(compaction.run(self.state.messages, signal)) as events:
                async for event in events:
                    yield event
            self.state = replace(self.state.adding(*compaction.messages), reactive_compact_attempted=True)
            if compaction.messages:
                self.state = self.state.with_budget_carried(self.outcome.output_tokens)
                for message in await attachments_now(self._parts, self.state, signal):
                    self.state = self.state.adding(message)
                    yield ev.MessageAppended(message=message)
            self.outcome = replace(
                self.outcome,
                compacted=bool(compaction.messages),
                summary=compaction.summary,
                aborted=signal.reason,
            )
        elif find.fact == "loop_verdict":
            async with aclosing(self._about_a_loop(signal)) as events:
                async for event in events:
                    yield event
        else:
            try:
                verdict = await signal.run(self._parts.seams.hooks.before_stop(self.state))
                self.outcome = replace(self.outcome, stop_hooks=verdict)
            except Aborted as abort:
                self.outcome = replace(self.outcome, aborted=abort.reason)

    async def _about_a_loop(self, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        assert self.outcome.repetition is not None
        runner = self._parts.turn.runner
        question = LoopQuestion(self.outcome.repetition, runner.title, runner.questions, self._parts.turn.ids)
        request_id = ""
        try:
            async with aclosing(question.run(signal)) as events:
                async for event in events:
                    if isinstance(event, ev.LoopSuspected):
                        request_id = event.request_id
                    yield event
            self.outcome = replace(self.outcome, loop_verdict=question.verdict)
        except Aborted as abort:
            self.outcome = replace(self.outcome, aborted=abort.reason, aborted_in="tools")
            yield ev.PermissionResolved(request_id=request_id, tool_use_id="", behavior="withdrawn")


class Continuation:
    """What the log gets before the next request (SPEC 2.6): our own words, queued prompts, attachments. `run()` yields
    it; then `state` has it.

    Each queued prompt goes from the queue to the log at its own event: an abort at any other point leaves it waiting.
    """

    def __init__(self, parts: LoopParts, state: LoopState, outcome: TurnOutcome) -> None:
        self._parts = parts
        self._outcome = outcome
        self.state = state

    async def run(self, way: Continue, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        before = self.state
        for message in way_on_messages(way, self.state, self._outcome, self._parts.turn.ids):
            yield self._added(message)
        has_results = way.transition is Transition.NEXT_TURN and bool(self._outcome.tool_results)
        if has_results or way.transition in (Transition.STOP_HOOK_BLOCKING, Transition.TOKEN_BUDGET_CONTINUATION):
            queue = self._parts.queue
            while (prompt := queue.first(most="next")) is not None:
                yield self._added(Message("user", prompt.content, prompt.id, Origin.QUEUED))
                queue.remove(prompt.id)
                async with aclosing(_mentioned(self._parts, self.state, prompt, signal)) as events:
                    async for event in events:
                        yield self._added(event.message) if isinstance(event, ev.MessageAppended) else event
        if has_results:
            for message in await attachments_now(self._parts, before, signal):
                yield self._added(message)

    def _added(self, message: Message) -> ev.MessageAppended:
        self.state = self.state.adding(message)
        return ev.MessageAppended(message=message)


def way_on_messages(way: Continue, state: LoopState, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """Our own words to the model that a transition needs, if any."""
    match way.transition:
        case Transition.COLLAPSE_DRAIN_RETRY | Transition.REACTIVE_COMPACT_RETRY if outcome.context_exceeded:
            replies = (m for m in reversed(state.messages) if m.origin is Origin.REPLY and not m.is_copy)
            cut = next(replies, None)
            if cut is None or cut.stop_reason != "model_context_window_exceeded":
                return ()  # The reply had no text and was not kept.
            text = words.context_recovery(cut.text)
        case Transition.MAX_OUTPUT_TOKENS_RECOVERY:
            text = words.OUTPUT_RECOVERY
        case Transition.TOKEN_BUDGET_CONTINUATION:
            text = words.token_budget(way.data["remaining"])
        case Transition.STOP_HOOK_BLOCKING if way.data.get("by") == "schema":
            text = "\n".join(way.data["errors"])
        case Transition.STOP_HOOK_BLOCKING:
            return (user_message(words.stop_hook(way.data["errors"]), ids.new(), Origin.HOOK),)
        case Transition.NEXT_TURN if way.data.get("reason") == "empty_reply":
            text = words.EMPTY_REPLY
        case Transition.NEXT_TURN if way.data.get("loop") == "advised":
            text = refused_again(way.data["name"], way.data["times"])
        case Transition.NEXT_TURN if way.data.get("loop") == "told":
            text = words.repeated(way.data["name"], way.data["times"])
        case Transition.NEXT_TURN if way.data.get("said"):
            return (user_message(way.data["said"], ids.new(), Origin.QUEUED),)
        case _:
            return ()
    return (user_message(text, ids.new(), Origin.RECOVERY),)


def way_out_messages(stop: Stop, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """What a terminal leaves in the log (the last column of SPEC 2.7's table)."""
    match stop.terminal:
        case Terminal.COMPLETED | Terminal.MAX_BUDGET_USD:
            return ()
        case Terminal.ABORTED_STREAMING | Terminal.ABORTED_TOOLS:
            if outcome.aborted is AbortReason.INTERRUPT:
                return ()
            in_tools = stop.terminal is Terminal.ABORTED_TOOLS
            text = words.INTERRUPTED_TOOLS if in_tools else words.INTERRUPTED
            text = words.CLOSED if outcome.aborted is AbortReason.SHUTDOWN else text
            return (user_message(text, ids.new(), Origin.INTERRUPTION),)
        case Terminal.MAX_TURNS:
            return (user_message(f"[{stop.text}]", ids.new(), Origin.ATTACHMENT),)
        case _:
            meta = {"terminal": stop.terminal.value, "kind": outcome.failure.kind.value if outcome.failure else ""}
            return (user_message(stop.text, ids.new(), Origin.ERROR, meta),)


async def _mentioned(
    parts: LoopParts, state: LoopState, prompt: QueuedPrompt, signal: AbortSignal
) -> AsyncGenerator[ev.Event, None]:
    """The files that a queued prompt mentions. Nobody is asked here: a question would hold up the running work."""
    if parts.mentions is None:
        return
    text = prompt.text if prompt.mentions is None else prompt.mentions
    async with aclosing(parts.mentions.attach(text, state.tool_context, signal, may_ask=False)) as events:
        async for event in events:
            yield event


async def attachments_now(parts: LoopParts, state: LoopState, signal: AbortSignal) -> tuple[Message, ...]:
    """Also right after a compaction: what it took out of sight is told again before the next request."""
    try:
        return tuple(await signal.run(parts.seams.attachments.collect(state)))
    except Aborted:
        return ()


def refused_prompts(state: LoopState) -> list[str]:
    """The ids of this submission's prompts: one of them was declined, so none is sent again unchanged."""
    ids = []
    for message in reversed(state.messages):
        if message.origin in (Origin.PROMPT, Origin.QUEUED):
            ids.append(message.id)
        if message.origin is Origin.PROMPT:
            break
    return ids
