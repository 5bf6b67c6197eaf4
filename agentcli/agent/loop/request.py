"""The request of one iteration. `prepare`: ask about a spent budget, shorten the context, or refuse to send (SPEC 2.1
step 7, 2.2). `exchange`: a turn, repeated with a repair if the API rejected a piece of history (SPEC 2.3).

Every request passes the cache watch here, and so does the cache usage that each response reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.context.compaction import Compaction
from agentcli.agent.costs.costs import ask_about_budget
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import TurnOutcome, repetition
from agentcli.agent.loop.turn import Turn, TurnPlan
from agentcli.agent.loop_state import CompactTracking, LoopState
from agentcli.agent.session import Session
from agentcli.context.compact import find_pinned
from agentcli.context.steps import MAX_TURNS, ContextState, expect_turns, is_unpriced
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Message, Origin
from agentcli.core.space_saving import as_append_only
from agentcli.providers.base import FailureKind


@frozen
class Prepared:
    """The state that a request can be made from."""

    state: LoopState
    estimate: int
    """Size of the request in tokens."""
    compacted: bool
    """Whether auto-compaction was tried. Even a failed one excludes a reactive one in the same iteration (I3)."""
    outcome: TurnOutcome | None
    """Set if no request is to be sent."""


async def prepare(session: Session, state: LoopState, signal: AbortSignal) -> Prepared:
    tracking = _without_old_failures(state.compact, session.context.change_count)
    state = state if tracking is state.compact else replace(state, compact=tracking)
    return await _Preparation(session, state, signal).run()


class _Preparation:
    def __init__(self, session: Session, state: LoopState, signal: AbortSignal) -> None:
        self._session = session
        self._signal = signal
        self.state = state
        self.estimate = self._estimate_request()

    async def run(self) -> Prepared:
        session, signal = self._session, self._signal
        await ask_about_budget(session, signal)
        for edited in session.pipeline.run(session.view, self.state.messages, self._context_state_after()):
            await session.emit(edited)
            self.estimate = self._estimate_request()
        outcome: TurnOutcome | None = None
        if compacts := self._needs_compaction() and not signal.aborted:
            await self._compact()
        if signal.aborted:
            outcome = TurnOutcome(aborted=signal.reason)
        elif self._is_full():
            usable, alone = session.context_limits.usable, self.state.only_a_prompt
            outcome = TurnOutcome(blocked=words.blocking_limit(self.estimate, usable, only_a_prompt=alone))
        return Prepared(self.state, self.estimate, compacts, outcome)

    async def _compact(self) -> None:
        session, signal = self._session, self._signal
        compaction = Compaction(session, "auto", self.state.messages, signal, budget_spent=self.state.budget_spent)
        await compaction.run()
        self.state = self.state.adding(*compaction.messages)
        if compaction.messages:
            self.state = self.state.with_budget_carried()
            for message in await session.collect_attachments(self.state, signal):
                self.state = self.state.adding(message)
                await session.emit(ev.MessageAppended(message=message))
        self.estimate = self._estimate_request()
        await ask_about_budget(session, signal)
        if signal.aborted:
            return
        tracking = self._update_tracking(worked=bool(compaction.messages))
        self.state = replace(self.state, compact=tracking)
        session.context.compact_tracking = tracking
        if tracking.failures_in_a_row == session.context_limits.max_auto_failures:
            text = self._failure_text(compaction.problem)
            await session.emit(ev.NoticeRaised(text=text, level="warning", code="compact"))

    def _context_state_after(self) -> Callable[[int], ContextState]:
        """A function that gives the state of the context after so many tokens were freed."""
        session, before = self._session, self.estimate
        view, pins, watch, price = session.view, session.pins, session.watch, session.settings.price
        cold = watch.cold(session.clock.monotonic())
        pinned = find_pinned(view.messages(self.state.messages), pins) if pins else ()
        turns = self._turns_to_come()
        # A server without prices (llama.cpp, Ollama) also caches what it has read, but does not report it.
        cached = watch.cached_tokens or (watch.prompt_tokens if is_unpriced(price) else 0)

        def state_after(freed: int) -> ContextState:
            return ContextState(
                estimate=before - freed,
                usable=session.context_limits.usable,
                cached=cached,
                cache_cold=cold,
                price=price,
                pinned=frozenset(pinned),
                turns_to_come=turns,
                long_lived=watch.long_lived,
            )

        return state_after

    def _turns_to_come(self) -> int:
        turn, earlier = self.state.turn_count, 0
        if turn <= MAX_TURNS:
            earlier = max(0, _recent_replies(self.state.messages) - turn + 1)
        return expect_turns(turn, self._session.limits.max_turns, earlier)

    def _estimate_request(self) -> int:
        return self._session.view.estimate(self.state.messages, self._session.context_limits.overhead)

    def _needs_compaction(self) -> bool:
        context = self._session.context_limits
        return (
            context.auto_compact
            and self.state.compact.failures_in_a_row < context.max_auto_failures
            and self.estimate >= context.usable * context.auto_threshold
        )

    def _update_tracking(self, *, worked: bool) -> CompactTracking:
        """The history with this compaction. One that leaves the context over the threshold counts as a failure."""
        known = self.state.compact
        if worked and not self._needs_compaction():
            return CompactTracking(turn_of_last=self.state.turn_count, changes=known.changes)
        return replace(known, failures_in_a_row=known.failures_in_a_row + 1)

    def _failure_text(self, problem: str | None) -> str:
        context = self._session.context_limits
        still = f"it left {self.estimate:,} tokens, and there is room for {context.usable:,}"
        return words.gave_up_compacting(context.max_auto_failures, problem or still)

    def _is_full(self) -> bool:
        """Whether the request does not fit and no later step can shorten it."""
        session, context = self._session, self._session.context_limits
        if self.estimate < context.usable or context.auto_compact:
            return False
        reactive = session.limits.reactive_compact and not self.state.reactive_compact_attempted
        return not reactive and not session.collapser.staged()


def _recent_replies(messages: Sequence[Message]) -> int:
    """Number of replies since the last compaction, at most `MAX_TURNS`."""
    count = 0
    for message in reversed(messages):
        if message.origin is Origin.BOUNDARY or count >= MAX_TURNS:
            break
        count += message.origin is Origin.REPLY
    return count


def _without_old_failures(tracking: CompactTracking, changes: int) -> CompactTracking:
    """Reset the failures if the user has changed the context since."""
    if tracking.changes == changes:
        return tracking
    return CompactTracking(turn_of_last=tracking.turn_of_last, changes=changes)


ROOM_MARGIN = 1_000
"""Tokens kept free in addition to the estimate of a request when its output cap is raised."""
_REPAIRS = {
    FailureKind.THINKING_REFUSED: "strip_thinking",
    FailureKind.IMAGE: "drop_images",
    FailureKind.PAIRING: "flatten_tools",
}


async def exchange(
    session: Session, state: LoopState, estimate: int, signal: AbortSignal
) -> tuple[LoopState, TurnOutcome]:
    """Returns the state with the new messages, and the outcome of the last turn."""
    return await _Exchange(session, state, estimate, signal).run()


class _Exchange:
    def __init__(self, session: Session, state: LoopState, estimate: int, signal: AbortSignal) -> None:
        self._session = session
        self._estimate = estimate
        self._signal = signal
        reserved = estimate + ROOM_MARGIN + session.settings.thinking_budget
        self._output_room = max(session.context_limits.window - reserved, 0)
        self.state = state

    async def run(self) -> tuple[LoopState, TurnOutcome]:
        session, signal = self._session, self._signal
        session.stage_collapses(self.state.messages, self._estimate, signal)
        view, through = session.view, self.state.messages[-1].id
        while True:
            turn = self._new_turn()
            await turn.run()
            failure = turn.outcome.failure
            repair = _REPAIRS.get(failure.kind) if failure is not None else None
            if failure is None or repair is None or signal.aborted or view.has_repair(repair, through):
                break
            view.repair(repair, through)
            await session.emit(ev.RequestRepaired(repair=repair, through=through, text=failure.message))
        session.context.request_ended()
        return self._results(turn)

    async def _emit(self, event: ev.Event) -> None:
        """Emit an event of the turn and what it leads to: findings of the cache watch, summaries that are ready."""
        emit = self._session.emit
        await emit(event)
        if isinstance(event, ev.UsageReported) and not event.agent and event.purpose == "turn":
            now = self._session.clock.monotonic()
            for finding in self._session.watch.answered(event.model, event.usage, now):
                await emit(finding)
        if self.state.pending_summaries:
            for ready in self.state.take_summaries():
                await emit(ready)

    def _results(self, turn: Turn) -> tuple[LoopState, TurnOutcome]:
        messages = as_append_only(self.state.messages).adding(*turn.added)
        state = replace(self.state, messages=messages, tool_context=turn.context)
        repeated = None
        if turn.outcome.tool_results:
            background = self._session.background.any_runs
            repeated = repetition(state.messages, state.repeats_from, background=background)
        outcome = replace(
            turn.outcome,
            added=tuple(turn.added),
            staged_collapses=self._session.collapser.staged(),
            output_room=self._output_room,
            repetition=repeated,
        )
        return state, outcome

    def _new_turn(self) -> Turn:
        session, state, limits = self._session, self.state, self._session.limits
        cap = limits.output_cap
        if state.max_output_override is not None:
            cap = min(state.max_output_override, limits.find_raised_cap(self._output_room))
        messages = session.view.wire(state.messages)
        request = session.requests.build(messages, cap, "turn", state.budget_spent)
        session.watch.sent(request, session.clock.monotonic())
        may_escalate = state.raised_output_cap(limits, self._output_room) is not None
        transition = state.transition.transition.value if state.transition is not None else ""
        plan = TurnPlan(request, state.turn_count, may_escalate, self._estimate, transition)
        return Turn(session, plan, state.tool_context, self._emit, self._signal)
