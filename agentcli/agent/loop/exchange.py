"""The call of one iteration (SPEC 2.3): a turn, and once more with a repair if the API refused a piece of history.

Every request passes the cache watch here, and so does what each response says it has read from the cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.state import LoopState
from agentcli.agent.loop.turn import Turn, TurnPlan
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.providers.base import FailureKind

ROOM_MARGIN = 1_000
"""Tokens kept free beside the estimate of a request when its output cap is raised."""
_REPAIRS = {
    FailureKind.THINKING_REFUSED: "strip_thinking",
    FailureKind.IMAGE: "drop_images",
    FailureKind.PAIRING: "flatten_tools",
}


class Exchange:
    """`run()` yields events; then `turn` is the one that counts."""

    def __init__(self, parts: LoopParts, state: LoopState, estimate: int, signal: AbortSignal) -> None:
        self._parts = parts
        self._state = state
        self._estimate = estimate
        self._signal = signal
        self.output_room = max(parts.context.window - estimate - ROOM_MARGIN, 0)
        """Tokens that the context window has left for the reply."""
        self.turn = self._new_turn()

    async def run(self) -> AsyncGenerator[ev.Event, None]:
        view, watch, clock = self._parts.compact.view, self._parts.watch, self._parts.turn.clock
        through = self._state.messages[-1].id
        while True:
            async with aclosing(self.turn.run()) as events:
                async for event in events:
                    yield event
                    if isinstance(event, ev.UsageReported) and event.purpose == "turn":
                        for told in watch.answered(event.model, event.usage, clock.monotonic()):
                            yield told
            failure = self.turn.outcome.failure
            repair = _REPAIRS.get(failure.kind) if failure is not None else None
            if failure is None or repair is None or self._signal.aborted or view.has_repair(repair, through):
                return
            view.repair(repair, through)
            yield ev.RequestRepaired(repair=repair, through=through, text=failure.message)
            self.turn = self._new_turn()

    def _new_turn(self) -> Turn:
        parts, state = self._parts, self._state
        limits = parts.limits
        cap = limits.output_cap
        if state.max_output_override is not None:
            cap = min(state.max_output_override, limits.raised_cap(self.output_room))
        request = parts.compact.requests.build(parts.compact.view.wire(state.messages), cap, "turn", state.budget_spent)
        parts.watch.look(request, parts.turn.clock.monotonic())
        may_escalate = state.max_output_override is None and limits.raised_cap(self.output_room) > limits.output_cap
        plan = TurnPlan(request, state.turn_count, may_escalate, self._estimate)
        return Turn(parts.turn, plan, state.tool_context, self._signal)
