"""The loop: prepare → exchange (request, reply, tools) → decide → continue or end (SPEC 1, 2).

`run_loop` ends only by yielding `LoopEnded`, once, last, and never raises for anything the model, the network, a tool,
a hook or the user did. Everything that varies between iterations is in one immutable `LoopState`; the decision is pure
(`decide.py`); everything that yields events is a `Stage`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from agentcli.agent.loop.decide import Find, TurnOutcome, decide
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.exchange import Exchange
from agentcli.agent.loop.prepare import Preparation
from agentcli.agent.loop.recover import Continuation, Ending, FactCheck
from agentcli.agent.loop_state import LoopState, Stop
from agentcli.core.abort import AbortSignal
from agentcli.core.events import Event
from agentcli.core.frozen import replace


class Stage(Protocol):
    """A step of the loop: constructed with its input; `run()` yields its events; then its attributes hold its
    results."""

    def run(self) -> AsyncGenerator[Event, None]: ...


async def run_loop(
    dependencies: LoopDependencies, state: LoopState, signal: AbortSignal
) -> AsyncGenerator[Event, None]:
    """Run one submission from its prompt (the last message in `state.messages` except for attachments) to its
    terminal."""
    try:
        for stage in _stages(dependencies, state, signal):
            async with aclosing(stage.run()) as events:
                async for event in events:
                    yield event
    finally:
        await dependencies.aclose()


def _stages(dependencies: LoopDependencies, state: LoopState, signal: AbortSignal) -> Iterator[Stage]:
    """The stages of all iterations. When this generator continues after a `yield`, that stage has run."""
    while True:
        yield (preparation := Preparation(dependencies, state, signal))
        state, outcome = preparation.state, preparation.outcome
        if outcome is None:
            yield (exchange := Exchange(dependencies, state, preparation.estimate, signal))
            state, outcome = exchange.state, replace(exchange.outcome, auto_compacted=preparation.compacted)

        decision = decide(state, _with_queue(outcome, dependencies), dependencies.limits)
        while isinstance(decision, Find):
            yield (check := FactCheck(dependencies, state, outcome, decision, signal))
            state, outcome = check.state, check.outcome
            decision = decide(state, _with_queue(outcome, dependencies), dependencies.limits)

        if isinstance(decision, Stop):
            yield Ending(dependencies, state, outcome, decision)
            return
        yield (continuation := Continuation(dependencies, state, outcome, decision, signal))
        state = continuation.next_state


def _with_queue(outcome: TurnOutcome, dependencies: LoopDependencies) -> TurnOutcome:
    """The outcome with what the queue holds now: prompts may arrive until the end."""
    return replace(outcome, prompts_wait=True) if dependencies.queue.holds_back_end else outcome
