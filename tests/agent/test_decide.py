"""`decide` as a table: every row of SPEC 2.7, their order, and a property test of its totality (L5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.loop.decide import Find, TurnOutcome, decide
from agentcli.agent.loop.repetition import LoopVerdict, Repetition
from agentcli.agent.loop_state import (
    CompactTracking,
    Continue,
    EndReason,
    Limits,
    LoopState,
    PendingSummary,
    Stop,
    TokenProgress,
    Transition,
    next_state,
)
from agentcli.agent.ports import StopVerdict
from agentcli.core.abort import AbortReason
from agentcli.core.messages import ToolUseBlock
from agentcli.providers.base import Failure, FailureKind
from agentcli.tools.base import ToolContext
from tests.support.tables import each_row

STATE = LoopState((), ToolContext(Path("/w"), (Path("/w"),)))
LIMITS = Limits()
LET_GO = StopVerdict()
TOO_LONG = Failure(FailureKind.PROMPT_TOO_LONG, "prompt is too long", 400)
BROKEN = Failure(FailureKind.BROKEN_STREAM, "the stream broke")
IMAGE = Failure(FailureKind.IMAGE, "the image is too large", 400)
ROUND = Repetition(ToolUseBlock("t", "Look", {}), 3)
INVALID = Failure(FailureKind.INVALID_REQUEST, "invalid", 400)


def outcome(**fields: Any) -> TurnOutcome:
    return TurnOutcome(**{"stop_hooks": LET_GO, **fields})


ROWS: list[tuple[str, TurnOutcome, dict[str, Any], dict[str, Any], EndReason | Transition | str]] = [
    # what the turn produced, changes of the state, changes of the limits, what must come of it
    ("an answer", outcome(), {}, {}, EndReason.COMPLETED),
    ("the budget is spent", outcome(aborted=AbortReason.BUDGET, tool_results=("1",)), {}, {}, EndReason.MAX_BUDGET_USD),
    (
        "the budget was spent before the request",
        TurnOutcome(aborted=AbortReason.BUDGET),
        {},
        {},
        EndReason.MAX_BUDGET_USD,
    ),
    ("the context is full", TurnOutcome(blocked="Full."), {}, {}, EndReason.BLOCKING_LIMIT),
    (
        "an abort beats a full context",
        outcome(blocked="Full.", aborted=AbortReason.USER_CANCEL),
        {},
        {},
        EndReason.ABORTED_STREAMING,
    ),
    ("tool results", outcome(tool_results=("1", "2")), {}, {}, Transition.NEXT_TURN),
    (
        "results in time",
        outcome(tool_results=("1",)),
        {"turn_count": 1},
        {"max_turns": 2},
        Transition.NEXT_TURN,
    ),
    ("results at max turns", outcome(tool_results=("1",)), {"turn_count": 2}, {"max_turns": 2}, EndReason.MAX_TURNS),
    ("an answer at max turns", outcome(), {"turn_count": 2}, {"max_turns": 2}, EndReason.COMPLETED),
    ("abort while streaming", outcome(aborted=AbortReason.USER_CANCEL), {}, {}, EndReason.ABORTED_STREAMING),
    (
        "abort while tools run",
        outcome(aborted=AbortReason.INTERRUPT, aborted_in="tools", tool_results=("1",)),
        {},
        {},
        EndReason.ABORTED_TOOLS,
    ),
    (
        "abort beats an error",
        outcome(aborted=AbortReason.SHUTDOWN, failure=BROKEN),
        {},
        {},
        EndReason.ABORTED_STREAMING,
    ),
    ("streaming error", outcome(failure=BROKEN), {}, {}, EndReason.MODEL_ERROR),
    ("image error", outcome(failure=IMAGE), {}, {}, EndReason.IMAGE_ERROR),
    ("API error", outcome(failure=INVALID, stop_hooks=None), {}, {}, EndReason.MODEL_ERROR),
    ("too long, collapses staged", outcome(failure=TOO_LONG, staged_collapses=2), {}, {}, "collapse_drain"),
    (
        "too long, collapses committed",
        outcome(failure=TOO_LONG, staged_collapses=2, collapses_committed=2),
        {},
        {},
        Transition.COLLAPSE_DRAIN_RETRY,
    ),
    ("too long, nothing staged", outcome(failure=TOO_LONG), {}, {}, "reactive_compact"),
    (
        "too long, a drain that committed nothing",
        outcome(failure=TOO_LONG, staged_collapses=1, collapses_committed=0),
        {},
        {},
        "reactive_compact",
    ),
    ("too long, compacted", outcome(failure=TOO_LONG, compacted=True), {}, {}, Transition.REACTIVE_COMPACT_RETRY),
    ("too long, compaction failed", outcome(failure=TOO_LONG, compacted=False), {}, {}, EndReason.PROMPT_TOO_LONG),
    (
        "too long again after a reactive compact (D2)",
        outcome(failure=TOO_LONG),
        {"reactive_compact_attempted": True},
        {},
        EndReason.PROMPT_TOO_LONG,
    ),
    (
        "too long right after an auto-compaction (I3)",
        outcome(failure=TOO_LONG, auto_compacted=True),
        {},
        {},
        EndReason.PROMPT_TOO_LONG,
    ),
    (
        "too long after an auto-compaction, collapses staged",
        outcome(failure=TOO_LONG, auto_compacted=True, staged_collapses=1),
        {},
        {},
        "collapse_drain",
    ),
    ("too long, compaction off", outcome(failure=TOO_LONG), {}, {"reactive_compact": False}, EndReason.PROMPT_TOO_LONG),
    ("the window overflowed in the reply", outcome(context_exceeded=True), {}, {}, "reactive_compact"),
    ("first overrun", outcome(overrun=True), {}, {}, Transition.MAX_OUTPUT_TOKENS_ESCALATE),
    (
        "overrun at the raised cap",
        outcome(overrun=True),
        {"max_output_override": 64_000},
        {},
        Transition.MAX_OUTPUT_TOKENS_RECOVERY,
    ),
    (
        "overrun where no higher cap exists",
        outcome(overrun=True),
        {},
        {"raised_output_cap": 8_192},
        Transition.MAX_OUTPUT_TOKENS_RECOVERY,
    ),
    (
        "overrun after three recoveries",
        outcome(overrun=True),
        {"max_output_override": 64_000, "output_recoveries": 3},
        {},
        EndReason.MODEL_ERROR,
    ),
    ("refusal", outcome(refused="declined", stop_hooks=None), {}, {}, EndReason.MODEL_ERROR),
    (
        "a hook stopped after the tools",
        outcome(tool_results=("1",), hook_stop="enough"),
        {},
        {},
        EndReason.HOOK_STOPPED,
    ),
    (
        "no structured output after many tries",
        outcome(tool_results=("1",), hook_stop="no output", stopped_by="schema"),
        {},
        {},
        EndReason.NO_STRUCTURED_OUTPUT,
    ),
    (
        "a stop without structured output after many tries",
        outcome(stop_hooks=StopVerdict(prevented="no output", by="schema")),
        {},
        {},
        EndReason.NO_STRUCTURED_OUTPUT,
    ),
    ("a tool completed it", outcome(tool_results=("1",), completed_by_tool=True), {}, {}, EndReason.COMPLETED),
    ("results of a row that repeats itself", outcome(tool_results=("1",), repetition=ROUND), {}, {}, "loop_verdict"),
    (
        "a loop that somebody lets go on",
        outcome(tool_results=("1",), repetition=ROUND, loop_verdict=LoopVerdict("continue")),
        {},
        {},
        Transition.NEXT_TURN,
    ),
    (
        "a loop that somebody ends",
        outcome(tool_results=("1",), repetition=ROUND, loop_verdict=LoopVerdict("stop")),
        {},
        {},
        EndReason.LOOP_DETECTED,
    ),
    (
        "a loop with nobody there: the model is told",
        outcome(tool_results=("1",), repetition=ROUND, loop_verdict=LoopVerdict("unattended")),
        {},
        {},
        Transition.NEXT_TURN,
    ),
    (
        "a loop with nobody there, and the model was told",
        outcome(tool_results=("1",), repetition=ROUND, loop_verdict=LoopVerdict("unattended")),
        {"warned_of_loop": True},
        {},
        EndReason.LOOP_DETECTED,
    ),
    (
        "a loop at max turns asks nobody",
        outcome(tool_results=("1",), repetition=ROUND),
        {"turn_count": 3},
        {"max_turns": 3},
        EndReason.MAX_TURNS,
    ),
    ("pause", outcome(paused=True), {}, {}, Transition.NEXT_TURN),
    ("the eleventh pause", outcome(paused=True), {"pauses": 10}, {}, EndReason.COMPLETED),
    ("an empty reply", outcome(empty=True), {}, {}, Transition.NEXT_TURN),
    ("a second empty reply", outcome(empty=True), {"nudged": True}, {}, EndReason.COMPLETED),
    ("stop hooks not asked yet", outcome(stop_hooks=None), {}, {}, "stop_hooks"),
    ("stop hooks block", outcome(stop_hooks=StopVerdict(("no",))), {}, {}, Transition.STOP_HOOK_BLOCKING),
    ("stop hooks end it", outcome(stop_hooks=StopVerdict(prevented="x")), {}, {}, EndReason.STOP_HOOK_PREVENTED),
    (
        "stop hooks that always block",
        outcome(stop_hooks=StopVerdict(("no",))),
        {"stop_hook_blocks": 20},
        {},
        EndReason.STOP_HOOK_PREVENTED,
    ),
    (
        "below the token target",
        outcome(output_tokens=100),
        {},
        {"token_target": 10_000},
        Transition.TOKEN_BUDGET_CONTINUATION,
    ),
    (
        "nine tenths of the token target",
        outcome(output_tokens=1_000),
        {"tokens": TokenProgress(used=8_000)},
        {"token_target": 10_000},
        EndReason.COMPLETED,
    ),
    (
        "diminishing returns",
        outcome(output_tokens=100),
        {"tokens": TokenProgress(used=2_000, continuations=2, last_gain=200)},
        {"token_target": 10_000},
        EndReason.COMPLETED,
    ),
    (
        "stop hooks beat the token target",
        outcome(stop_hooks=StopVerdict(("no",))),
        {},
        {"token_target": 10_000},
        Transition.STOP_HOOK_BLOCKING,
    ),
    (
        "the token target goes no further than max turns",
        outcome(),
        {"turn_count": 5},
        {"token_target": 10_000, "max_turns": 5},
        EndReason.COMPLETED,
    ),
    ("prompts wait at the end", outcome(prompts_wait=True), {}, {}, "queued_prompts"),
    ("prompts were taken in", outcome(prompts_taken=True), {}, {}, Transition.NEXT_TURN),
    ("no prompt was taken in", outcome(prompts_wait=True, prompts_taken=False), {}, {}, EndReason.COMPLETED),
    ("prompts at max turns", outcome(prompts_wait=True), {"turn_count": 2}, {"max_turns": 2}, EndReason.COMPLETED),
    (
        "a stop hook comes before prompts",
        outcome(prompts_wait=True, stop_hooks=StopVerdict(("no",))),
        {},
        {},
        Transition.STOP_HOOK_BLOCKING,
    ),
    (
        "a stop hook goes no further than max turns",
        outcome(stop_hooks=StopVerdict(("no",))),
        {"turn_count": 5},
        {"max_turns": 5},
        EndReason.MAX_TURNS,
    ),
]


def test_the_budget_stop_has_the_text_of_the_limits() -> None:
    limits = replace(LIMITS, budget_text=lambda: "Reached maximum budget ($1)")
    assert decide(STATE, TurnOutcome(aborted=AbortReason.BUDGET), limits) == Stop(
        EndReason.MAX_BUDGET_USD, "Reached maximum budget ($1)"
    )


@each_row(("said", "produced", "state", "limits", "expected"), ROWS)
def test_each_row_of_the_table_is_decided(
    said: str,
    produced: TurnOutcome,
    state: dict[str, Any],
    limits: dict[str, Any],
    expected: EndReason | Transition | str,
) -> None:
    decision = decide(replace(STATE, **state), produced, replace(LIMITS, **limits))
    match decision:
        case Stop(terminal):
            assert terminal is expected
        case Continue(transition):
            assert transition is expected
        case Find(fact):
            assert fact == expected


def test_every_transition_and_every_terminal_of_the_inner_loop_has_a_row() -> None:
    reached = {row[4] for row in ROWS}
    assert set(Transition) <= reached
    assert set(EndReason) <= reached


@each_row("failure", [BROKEN, IMAGE, INVALID, TOO_LONG])
def test_an_error_never_asks_the_stop_hooks(failure: Failure) -> None:
    decision = decide(STATE, TurnOutcome(failure=failure, compacted=False), LIMITS)
    assert isinstance(decision, Stop)


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
    after = next_state(worn, Continue(Transition.NEXT_TURN, {"results": 1}), 10)
    assert after.output_recoveries == 0
    assert after.max_output_override is None
    assert after.pauses == 0
    assert not after.nudged
    assert after.turn_count == worn.turn_count + 1
    assert after.reactive_compact_attempted, "the breaker survives every transition (D2)"
    assert after.compact.failures_in_a_row == 1
    assert after.tokens.used == 10


def test_a_recovery_is_no_new_turn() -> None:
    for transition, data in (
        (Transition.COLLAPSE_DRAIN_RETRY, {}),
        (Transition.REACTIVE_COMPACT_RETRY, {}),
        (Transition.MAX_OUTPUT_TOKENS_ESCALATE, {"cap": 64_000}),
        (Transition.MAX_OUTPUT_TOKENS_RECOVERY, {"attempt": 1}),
    ):
        assert next_state(STATE, Continue(transition, data), 0).turn_count == STATE.turn_count


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
    stop_hooks=st.none() | st.builds(StopVerdict, st.just(()) | st.just(("e",)), st.none() | st.just("p")),
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
            "stop_hooks": {"stop_hooks": LET_GO},
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


@given(outcomes, limits_strategy)
def test_decide_is_pure(produced: TurnOutcome, limits: Limits) -> None:
    assert decide(STATE, produced, limits) == decide(STATE, produced, limits)


@pytest.mark.parametrize("transition", list(Transition))
def test_a_pending_tool_summary_outlives_every_transition(transition: Transition) -> None:
    pending = STATE.with_summary(PendingSummary())
    data = {"cap": 64_000, "results": ["a"], "remaining": 10}
    after = next_state(pending, Continue(transition, data), 0)
    assert after.pending_summaries[0] is pending.pending_summaries[0]
    later = PendingSummary()
    assert after.with_summary(later).pending_summaries == (*pending.pending_summaries, later)
