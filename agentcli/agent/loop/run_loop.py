"""The loop: prepare → exchange (request, reply, tools) → decide → continue or end (SPEC 1, 2).

`run_loop` ends only by yielding `LoopEnded`, once, last, and never raises for anything the model, the network, a tool,
a hook or the user did. Everything that varies between iterations is in one immutable `LoopState`; the decision is pure
(`decide.py`); the stages are functions that emit events and return their results.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.loop.decide import Find, TurnOutcome, decide
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.exchange import exchange
from agentcli.agent.loop.prepare import prepare
from agentcli.agent.loop.recover import continue_loop, end_loop, find_fact
from agentcli.agent.loop_state import LoopState, Stop
from agentcli.core.abort import AbortSignal
from agentcli.core.events import Event
from agentcli.core.frozen import replace


def run_loop(dependencies: LoopDependencies, state: LoopState, signal: AbortSignal) -> AsyncGenerator[Event, None]:
    """Run one submission from its prompt (the last message in `state.messages` except for attachments) to its
    terminal. Closing the generator ends the work."""
    return dependencies.exit.deliver(_iterate(dependencies, state, signal))


async def _iterate(dependencies: LoopDependencies, state: LoopState, signal: AbortSignal) -> None:
    try:
        while True:
            prepared = await prepare(dependencies, state, signal)
            state, outcome = prepared.state, prepared.outcome
            if outcome is None:
                state, outcome = await exchange(dependencies, state, prepared.estimate, signal)
                outcome = replace(outcome, auto_compacted=prepared.compacted)

            decision = decide(state, _with_queue(outcome, dependencies), dependencies.limits)
            while isinstance(decision, Find):
                state, outcome = await find_fact(dependencies, state, outcome, decision, signal)
                decision = decide(state, _with_queue(outcome, dependencies), dependencies.limits)

            if isinstance(decision, Stop):
                return await end_loop(dependencies, state, outcome, decision)
            state = await continue_loop(dependencies, state, outcome, decision, signal)
    finally:
        await dependencies.aclose()


def _with_queue(outcome: TurnOutcome, dependencies: LoopDependencies) -> TurnOutcome:
    """The outcome with what the queue holds now: prompts may arrive until the end."""
    return replace(outcome, prompts_wait=True) if dependencies.queue.holds_back_end else outcome
