"""`decide` as a table: every row of SPEC 2.7, their order, and a property test of its totality (L5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.loop.decide import Find, LoopVerdict, Repetition, TurnOutcome, decide
from agentcli.agent.loop_state import (
    CompactTracking,
    Continue,
    EndReason,
    Limits,
    LoopState,
    Stop,
    TokenProgress,
    Transition,
    next_state,
)
from agentcli.agent.ports import HookVerdict
from agentcli.core.aio import AbortReason
from agentcli.core.messages import ToolUseBlock
from agentcli.providers.base import Failure, FailureKind
from agentcli.tools.base import ToolContext
from tests.support.tables import each_row

STATE = LoopState((), ToolContext(Path("/w"), (Path("/w"),)))
LIMITS = Limits()
TOO_LONG = Failure(FailureKind.PROMPT_TOO_LONG, "prompt is too long", 400)
BROKEN = Failure(FailureKind.BROKEN_STREAM, "the stream broke")
IMAGE = Failure(FailureKind.IMAGE, "the image is too large", 400)
ROUND = Repetition(ToolUseBlock("t", "Look", {}), 3)
INVALID = Failure(FailureKind.INVALID_REQUEST, "invalid", 400)


Row = tuple[str, EndReason | Transition | str, TurnOutcome, dict[str, Any], dict[str, Any]]
CANCEL, BUDGET = AbortReason.USER_CANCEL, AbortReason.BUDGET
RESULTS = ("1", "2")
BLOCKS, ENDS = HookVerdict(errors=("no",)), HookVerdict(stop="x")
NO_OUTPUT = HookVerdict(stop="no output", by="schema")
CONTINUE, END, UNATTENDED = LoopVerdict("continue"), LoopVerdict("stop"), LoopVerdict("unattended")
LOOP: dict[str, Any] = {"tool_results": RESULTS, "repetition": ROUND}
LAST: dict[str, Any] = {"state": {"turn_count": 2}, "limits": {"max_turns": 2}}
RAISED = {"max_output_override": 64_000}
TARGET = {"token_target": 10_000}


def progress(used: int, continuations: int = 0, last_gain: int = 0) -> dict[str, TokenProgress]:
    return {"tokens": TokenProgress(used, continuations, last_gain)}


def row(
    said: str, expected: EndReason | Transition | str, *, state: Any = (), limits: Any = (), **produced: Any
) -> Row:
    """`expected`: a terminal, a transition, or the fact to find; `produced`: what the turn brought."""
    return said, expected, TurnOutcome(**{"stop_hooks": HookVerdict(), **produced}), dict(state), dict(limits)


ROWS = [
    row("an answer", EndReason.COMPLETED),
    row("the budget is spent", EndReason.MAX_BUDGET_USD, aborted=BUDGET, tool_results=RESULTS),
    row("the context is full", EndReason.BLOCKING_LIMIT, blocked="Full."),
    row("an abort beats a full context", EndReason.ABORTED_STREAMING, blocked="Full.", aborted=CANCEL),
    row("abort while streaming", EndReason.ABORTED_STREAMING, aborted=CANCEL),
    row("abort in tools", EndReason.ABORTED_TOOLS, aborted=CANCEL, aborted_in="tools", tool_results=RESULTS),
    row("abort beats an error", EndReason.ABORTED_STREAMING, aborted=AbortReason.SHUTDOWN, failure=BROKEN),
    row("tool results", Transition.NEXT_TURN, tool_results=RESULTS),
    row("results in time", Transition.NEXT_TURN, tool_results=RESULTS, limits={"max_turns": 2}),
    row("results at max turns", EndReason.MAX_TURNS, tool_results=RESULTS, **LAST),
    row("an answer at max turns", EndReason.COMPLETED, **LAST),
    row("streaming error", EndReason.MODEL_ERROR, failure=BROKEN),
    row("image error", EndReason.IMAGE_ERROR, failure=IMAGE),
    row("API error", EndReason.MODEL_ERROR, failure=INVALID, stop_hooks=None),
    row("too long, collapses staged", "collapse_drain", failure=TOO_LONG, staged_collapses=2),
    row("too long, committed", Transition.COLLAPSE_DRAIN_RETRY, failure=TOO_LONG, collapses_committed=2),
    row("too long, nothing staged", "reactive_compact", failure=TOO_LONG),
    row("an empty drain", "reactive_compact", failure=TOO_LONG, staged_collapses=1, collapses_committed=0),
    row("too long, compacted", Transition.REACTIVE_COMPACT_RETRY, failure=TOO_LONG, compacted=True),
    row("too long, compaction failed", EndReason.PROMPT_TOO_LONG, failure=TOO_LONG, compacted=False),
    row("D2", EndReason.PROMPT_TOO_LONG, failure=TOO_LONG, state={"reactive_compact_attempted": True}),
    row("I3", EndReason.PROMPT_TOO_LONG, failure=TOO_LONG, auto_compacted=True),
    row("I3, collapses staged", "collapse_drain", failure=TOO_LONG, auto_compacted=True, staged_collapses=1),
    row("compaction off", EndReason.PROMPT_TOO_LONG, failure=TOO_LONG, limits={"reactive_compact": False}),
    row("the window overflowed in the reply", "reactive_compact", context_exceeded=True),
    row("first overrun", Transition.MAX_OUTPUT_TOKENS_ESCALATE, overrun=True),
    row("overrun at the raised cap", Transition.MAX_OUTPUT_TOKENS_RECOVERY, overrun=True, state=RAISED),
    row("no higher cap", Transition.MAX_OUTPUT_TOKENS_RECOVERY, overrun=True, limits={"raised_output_cap": 8_192}),
    row("three recoveries", EndReason.MODEL_ERROR, overrun=True, state={**RAISED, "output_recoveries": 3}),
    row("refusal", EndReason.MODEL_ERROR, refused="declined", stop_hooks=None),
    row("a hook stopped after the tools", EndReason.HOOK_STOPPED, tool_results=RESULTS, hook_stop="enough"),
    row("no output", EndReason.NO_STRUCTURED_OUTPUT, tool_results=RESULTS, hook_stop="none", stopped_by="schema"),
    row("a stop without output", EndReason.NO_STRUCTURED_OUTPUT, stop_hooks=NO_OUTPUT),
    row("a tool completed it", EndReason.COMPLETED, tool_results=RESULTS, completed_by_tool=True),
    row("results that repeat", "loop_verdict", **LOOP),
    row("a loop that the user lets go on", Transition.NEXT_TURN, **LOOP, loop_verdict=CONTINUE),
    row("a loop that the user ends", EndReason.LOOP_DETECTED, **LOOP, loop_verdict=END),
    row("an unattended loop", Transition.NEXT_TURN, **LOOP, loop_verdict=UNATTENDED),
    row("warned", EndReason.LOOP_DETECTED, **LOOP, loop_verdict=UNATTENDED, state={"warned_of_loop": True}),
    row("a loop at max turns asks nobody", EndReason.MAX_TURNS, **LOOP, **LAST),
    row("pause", Transition.NEXT_TURN, paused=True),
    row("the eleventh pause", EndReason.COMPLETED, paused=True, state={"pauses": 10}),
    row("an empty reply", Transition.NEXT_TURN, empty=True),
    row("a second empty reply", EndReason.COMPLETED, empty=True, state={"nudged": True}),
    row("stop hooks not asked yet", "stop_hooks", stop_hooks=None),
    row("stop hooks block", Transition.STOP_HOOK_BLOCKING, stop_hooks=BLOCKS),
    row("stop hooks end it", EndReason.STOP_HOOK_PREVENTED, stop_hooks=ENDS),
    row("always blocks", EndReason.STOP_HOOK_PREVENTED, stop_hooks=BLOCKS, state={"stop_hook_blocks": 20}),
    row("a stop hook goes no further than max turns", EndReason.MAX_TURNS, stop_hooks=BLOCKS, **LAST),
    row("below the target", Transition.TOKEN_BUDGET_CONTINUATION, output_tokens=100, limits=TARGET),
    row("nine tenths of it", EndReason.COMPLETED, output_tokens=1_000, state=progress(used=8_000), limits=TARGET),
    row("small gains", EndReason.COMPLETED, output_tokens=100, state=progress(2_000, 2, 200), limits=TARGET),
    row("stop hooks beat the target", Transition.STOP_HOOK_BLOCKING, stop_hooks=BLOCKS, limits=TARGET),
    row("the target at max turns", EndReason.COMPLETED, state={"turn_count": 5}, limits={**TARGET, "max_turns": 5}),
    row("prompts wait at the end", "queued_prompts", prompts_wait=True),
    row("prompts were taken in", Transition.NEXT_TURN, prompts_taken=True),
    row("no prompt was taken in", EndReason.COMPLETED, prompts_wait=True, prompts_taken=False),
    row("prompts at max turns", EndReason.COMPLETED, prompts_wait=True, **LAST),
    row("a stop hook comes before prompts", Transition.STOP_HOOK_BLOCKING, prompts_wait=True, stop_hooks=BLOCKS),
]


@each_row(("said", "expected", "produced", "state", "limits"), ROWS)
def test_each_row_of_the_table_is_decided(
    said: str, expected: Any, produced: TurnOutcome, state: dict[str, Any], limits: dict[str, Any]
) -> None:
    match decide(replace(STATE, **state), produced, replace(LIMITS, **limits)):
        case Stop(found) | Continue(found) | Find(found):
            assert found == expected


def test_every_transition_and_every_terminal_of_the_inner_loop_has_a_row() -> None:
    assert {*Transition, *EndReason} <= {row[1] for row in ROWS}


def test_a_continue_keeps_no_stale_value() -> None:
    worn = replace(
        STATE,
        output_recoveries=2,
        max_output_override=64_000,
        reactive_compact_attempted=True,
        pauses=3,
        nudged=True,
        compact=CompactTracking(failures_in_a_row=1),
    )
    decision = Continue(Transition.NEXT_TURN, {"results": 1})
    after = next_state(worn, decision, 10)
    assert after.transition is decision, "the state says why an iteration exists (L4)"
    assert (after.output_recoveries, after.max_output_override, after.pauses, after.nudged) == (0, None, 0, False)
    assert after.turn_count == worn.turn_count + 1
    assert after.reactive_compact_attempted, "the breaker survives every transition (D2)"
    assert after.compact.failures_in_a_row == 1
    assert after.tokens.used == 10


failures = st.none() | st.builds(Failure, st.sampled_from(FailureKind), st.just("x"))
outcomes = st.builds(
    TurnOutcome,
    aborted=st.none() | st.sampled_from(AbortReason),
    failure=failures,
    tool_results=st.sampled_from([(), ("1",), ("1", "2")]),
    overrun=st.booleans(),
    context_exceeded=st.booleans(),
    paused=st.booleans(),
    empty=st.booleans(),
    refused=st.none() | st.just("no"),
    completed_by_tool=st.booleans(),
    hook_stop=st.none() | st.just("stop"),
    output_tokens=st.integers(0, 2_000),
    staged_collapses=st.integers(0, 2),
    collapses_committed=st.none() | st.integers(0, 2),
    auto_compacted=st.booleans(),
    compacted=st.none() | st.booleans(),
    stop_hooks=st.none()
    | st.builds(HookVerdict, errors=st.sampled_from([(), ("e",)]), stop=st.sampled_from([None, "p"])),
    repetition=st.none() | st.just(ROUND),
    loop_verdict=st.none() | st.builds(LoopVerdict, st.sampled_from(["unattended", "continue", "stop"])),
)
limits_strategy = st.builds(
    Limits,
    max_turns=st.none() | st.integers(1, 3),
    token_target=st.none() | st.integers(1, 5_000),
    reactive_compact=st.booleans(),
)


@given(outcomes, limits_strategy, st.integers(1, 4))
def test_every_combination_of_inputs_leads_to_a_decision(produced: TurnOutcome, limits: Limits, turn: int) -> None:
    """For any outcome each fact is requested at most once, followed by a Continue or a Stop."""
    state = replace(STATE, turn_count=turn)
    asked: list[str] = []
    decision = decide(state, produced, limits)
    while isinstance(decision, Find):
        assert decision.fact not in asked
        asked.append(decision.fact)
        found: dict[str, Any] = {
            "collapse_drain": {"collapses_committed": 0},
            "reactive_compact": {"compacted": False},
            "stop_hooks": {"stop_hooks": HookVerdict()},
            "loop_verdict": {"loop_verdict": LoopVerdict("unattended")},
        }[decision.fact]
        produced = replace(produced, **found)
        decision = decide(state, produced, limits)
    assert not (produced.auto_compacted and "reactive_compact" in asked), "one compaction per iteration (I3)"
    if produced.aborted is not None:
        assert isinstance(decision, Stop)
        budget = produced.aborted is AbortReason.BUDGET
        aborted = (EndReason.ABORTED_STREAMING, EndReason.ABORTED_TOOLS)
        assert decision.terminal in ((EndReason.MAX_BUDGET_USD,) if budget else aborted)
