"""The loop: prepare → call → stream → dispatch tools → collect → decide → attach (SPEC 1, 2).

`run_loop` is a literal `while True` without a bound of its own. It ends only by yielding `LoopEnded`, once, last, and
never raises for anything the model, the network, a tool, a hook or the user did. What varies between iterations is in
one immutable `LoopState`; each stage is an object or a function of its own; the decision is pure (`decide.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.loop.decide import Find, TurnOutcome, decide
from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.exchange import Exchange
from agentcli.agent.loop.prepare import Preparation
from agentcli.agent.loop.recover import Continuation, Finding, refused_prompts, way_out_messages
from agentcli.agent.loop.repetition import repetition
from agentcli.agent.loop.state import LoopState, Stop, Terminal, Transition, next_state
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal


async def run_loop(parts: LoopParts, state: LoopState, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
    """Drive one submission from its prompt (in `state.messages`, last but for attachments) to its terminal."""
    try:
        while True:
            preparation = Preparation(parts, state)
            async with aclosing(preparation.run(signal)) as events:
                async for event in events:
                    yield event
            state = preparation.state
            if preparation.blocked is not None:
                blocked = Stop(Terminal.BLOCKING_LIMIT, preparation.blocked)
                async with aclosing(_ending(parts, state, blocked, TurnOutcome())) as events:
                    async for event in events:
                        yield event
                return

            parts.stage(state.messages, preparation.estimate, signal)
            exchange = Exchange(parts, state, preparation.estimate, signal)
            async with aclosing(exchange.run()) as events:
                async for event in events:
                    yield event
                    for late in parts.late_events():
                        yield late
            parts.landed()
            turn = exchange.turn
            state = replace(state.adding(*turn.added), tool_context=turn.context)
            staged, room = parts.seams.collapser.staged(), exchange.output_room
            outcome = replace(turn.outcome, staged_collapses=staged, output_room=room)
            if outcome.tool_results:
                repeated = repetition(state.messages, state.repeats_from, advised=state.advised)
                outcome = replace(outcome, repetition=repeated)

            decision = decide(state, outcome, parts.limits)
            while isinstance(decision, Find):
                finding = Finding(parts, state, outcome)
                async with aclosing(finding.run(decision, signal)) as events:
                    async for event in events:
                        yield event
                state, outcome = finding.state, finding.outcome
                decision = decide(state, outcome, parts.limits)

            if isinstance(decision, Stop):
                async with aclosing(_ending(parts, state, decision, outcome, turn.final)) as events:
                    async for event in events:
                        yield event
                return
            if decision.transition is Transition.NEXT_TURN and outcome.tool_results:
                parts.summarise(turn.added, signal)
            continuation = Continuation(parts, state, outcome)
            async with aclosing(continuation.run(decision, signal)) as events:
                async for event in events:
                    yield event
            state = next_state(continuation.state, decision, outcome.output_tokens)
            yield ev.LoopContinued(
                transition=decision.transition.value, turn=state.turn_count, data=dict(decision.data)
            )
    finally:
        await parts.aclose()


async def _ending(
    parts: LoopParts, state: LoopState, stop: Stop, outcome: TurnOutcome, final: object = None
) -> AsyncGenerator[ev.Event, None]:
    """The messages that a terminal leaves, what background work still had to say, and `LoopEnded`."""
    for prompt in refused_prompts(state) if outcome.refused is not None else ():
        parts.compact.view.repair("leave_out_prompt", prompt)
        yield ev.RequestRepaired(repair="leave_out_prompt", through=prompt, text=stop.text)
    if stop.terminal is Terminal.PROMPT_TOO_LONG:
        parts.detach(parts.seams.hooks.after_failure(stop.text))
    for message in way_out_messages(stop, outcome, parts.turn.ids):
        yield ev.MessageAppended(message=message)
    await parts.aclose()
    for late in parts.late_events():
        yield late
    failure = outcome.failure
    yield ev.LoopEnded(
        terminal=stop.terminal.value,
        turns=state.turn_count,
        text=stop.text,
        status=failure.status if failure else None,
        stop_reason=outcome.stop_reason,
        retryable=bool(failure and failure.retryable),
        final=final,
    )
