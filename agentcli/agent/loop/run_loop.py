"""The loop: prepare → exchange (request, reply, tools) → decide → continue or end (SPEC 1, 2).

`run_loop` ends only by yielding `LoopEnded`, once, last, and never raises for anything the model, the network, a tool,
a hook or the user did. Everything that varies between iterations is in one immutable `LoopState`; the decision is pure
(`decide.py`); the stages are functions that emit events and return their results.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.loop.decide import Find, TurnOutcome, decide
from agentcli.agent.loop.recover import continue_loop, end_loop, find_fact
from agentcli.agent.loop.request import exchange, prepare
from agentcli.agent.loop_state import LoopState, Stop
from agentcli.agent.session import Session
from agentcli.core.aio import AbortSignal
from agentcli.core.events import Event
from agentcli.core.frozen import replace


def run_loop(session: Session, state: LoopState, signal: AbortSignal) -> AsyncGenerator[Event, None]:
    """Run one submission from its prompt (the last message in `state.messages` except for attachments) to its
    terminal. Closing the generator ends the work."""
    return session.deliver(_iterate(session, state, signal))


async def _iterate(session: Session, state: LoopState, signal: AbortSignal) -> None:
    try:
        while True:
            prepared = await prepare(session, state, signal)
            state, outcome = prepared.state, prepared.outcome
            if outcome is None:
                state, outcome = await exchange(session, state, prepared.estimate, signal)
                outcome = replace(outcome, auto_compacted=prepared.compacted)

            decision = decide(state, _with_queue(outcome, session), session.limits)
            while isinstance(decision, Find):
                state, outcome = await find_fact(session, state, outcome, decision, signal)
                decision = decide(state, _with_queue(outcome, session), session.limits)

            if isinstance(decision, Stop):
                return await end_loop(session, state, outcome, decision)
            state = await continue_loop(session, state, outcome, decision, signal)
    finally:
        await session.end_background_work()


def _with_queue(outcome: TurnOutcome, session: Session) -> TurnOutcome:
    """The outcome with what the queue holds now: prompts may arrive until the end."""
    return replace(outcome, prompts_wait=True) if session.queue.holds_back_end else outcome
