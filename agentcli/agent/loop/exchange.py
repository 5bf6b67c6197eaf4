"""The request of one iteration (SPEC 2.3): a turn, repeated with a repair if the API rejected a piece of history. Every
request passes the cache watch here, and so does the cache usage that each response reports."""

from __future__ import annotations

from agentcli.agent.loop.decide import TurnOutcome
from agentcli.agent.loop.repetition import repetition
from agentcli.agent.loop.turn import Turn, TurnPlan
from agentcli.agent.loop_state import LoopState
from agentcli.agent.session import Session
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.append_only import as_append_only
from agentcli.core.frozen import replace
from agentcli.providers.base import FailureKind

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
            cap = min(state.max_output_override, limits.raised_cap(self._output_room))
        messages = session.view.wire(state.messages)
        request = session.requests.build(messages, cap, "turn", state.budget_spent)
        session.watch.sent(request, session.clock.monotonic())
        may_escalate = state.raised_output_cap(limits, self._output_room) is not None
        plan = TurnPlan(request, state.turn_count, may_escalate, self._estimate)
        return Turn(session, plan, state.tool_context, self._emit, self._signal)
