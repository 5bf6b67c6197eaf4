"""Decide to continue or stop: a pure function of the state, the outcome of the turn, and the limits (SPEC L5, 2.7).

Some rows need a fact that costs I/O: whether the stop hooks agree, whether a compaction worked. `Find` requests such a
fact; the loop finds it out (`recover.find_fact`), puts it into the outcome and decides again. So the order of the rows
is defined here alone, and a table test can check it.

The order is that of SPEC 2.7, but D1 takes precedence: no transition starts a turn beyond `max_turns`, be it for tool
results, a stop hook or a token target. A target that the limit cuts short leaves an answer, so the submission
completes.

Here is also the loop guard, which detects a model that repeats itself before that has cost much. A repetition is three
turns in a row, or three rounds of a cycle of up to three turns, that make the same calls with equal input and get the
same results. It is read from the conversation, so it needs no state and works in a resumed session. A message of the
user ends a repetition, and so does a reply without calls. Calls that take time wait for something, as `sleep 5; check`
does, and so does any call while a background task runs: the next result may differ. Such polling is never ended. The
model and the user are notified after ten rounds, and again after ten more. If no time passes, the user is asked in an
interactive session. Otherwise the model is warned once; if it continues, the submission ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from agentcli.agent.loop import wording as words
from agentcli.agent.loop_state import Continue, EndReason, Limits, LoopState, Stop, Transition
from agentcli.agent.ports import HookVerdict, StopSource
from agentcli.core.aio import AbortReason
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, Origin, ToolUseBlock
from agentcli.providers.base import Failure, FailureKind
from agentcli.tools.registry import builtin_traits
from agentcli.tools.structured import StructuredOutput

REPEATS = 3
_MAX_CYCLE = 3
SECONDS = "seconds"
"""Key in the meta of a message with results: how long the calls took, if that was at least `MIN_WAIT_SECONDS`."""
MIN_WAIT_SECONDS = 1.0
POLLS = 10
"""Rounds of polling without a change before a notice."""

_Turn = tuple[tuple[str, Json, object, bool], ...]
"""The calls of a turn: name, input, content of the result, whether it is an error."""


@frozen
class Repetition:
    call: ToolUseBlock
    """The last call of the repetition, to name it."""
    times: int
    seconds: float = 0.0
    """How long its calls took."""
    can_change: bool = False
    """It waits for something, so that its next result may differ."""


@frozen
class LoopVerdict:
    """How to proceed with a repetition: the user's answer, "polling" if its result may change, or "unattended" in a
    non-interactive session."""

    kind: Literal["unattended", "polling", "continue", "stop"]
    said: str = ""
    """The user's instruction what to do instead; sent to the model, which continues."""


def repetition(messages: Sequence[Message], since: int = 0, *, background: bool = False) -> Repetition | None:
    """The repetition at the end of the conversation, or None. `since`: messages before this index were checked and
    allowed. `background`: a background task runs, which may change any result.

    Costs only what is compared: a conversation that does not repeat itself is read three turns back.
    """
    turns = _Turns(messages, since)
    for period in range(1, _MAX_CYCLE + 1):
        times = turns.times(period)
        if times < REPEATS:
            continue
        names = {name for turn in turns.calls[:period] for name, *_rest in turn}
        seconds = sum(turns.seconds[: times * period])
        can_change = background or seconds >= times * MIN_WAIT_SECONDS
        if times >= max(POLLS if can_change else REPEATS, *map(_max_repeats, names)):
            return Repetition(turns.last_call, times, seconds, can_change)
    return None


def _max_repeats(name: str) -> int:
    return StructuredOutput.max_repeats if name == StructuredOutput.name else builtin_traits("max_repeats").get(name, 0)


class _Turns:
    """The turns from the newest back to where a repetition must end, read only as far as needed."""

    def __init__(self, messages: Sequence[Message], since: int) -> None:
        self._source = self._read(islice(reversed(messages), max(0, len(messages) - since)))
        self._uses: list[ToolUseBlock] = []
        self.calls: list[_Turn] = []
        self.seconds: list[float] = []
        """How long the calls of each turn took."""

    @property
    def last_call(self) -> ToolUseBlock:
        return self._uses[0]

    def times(self, period: int) -> int:
        """How often the last `period` turns have repeated in a row."""
        same = 0
        while self._has(same + period) and self.calls[same] == self.calls[same + period]:
            same += 1
        return same // period + 1

    def _has(self, number: int) -> bool:
        while len(self.calls) <= number and next(self._source, None) is not None:
            pass
        return len(self.calls) > number

    def _read(self, backwards: Iterable[Message]) -> Iterator[_Turn]:
        results: dict[str, tuple[object, bool]] = {}
        seconds = 0.0
        for message in backwards:
            if message.is_copy:
                continue  # A copy made by a compaction; nothing was done again.
            if message.origin in (Origin.PROMPT, Origin.QUEUED, Origin.SUMMARY):
                return
            if message.role == "user":
                seconds += message.meta.get(SECONDS, 0.0)
                results |= {one.tool_use_id: (one.content, one.is_error) for one in message.tool_results}
                continue
            if not message.tool_uses:
                return
            self._uses.append(message.tool_uses[-1])
            self.calls.append(
                tuple([(use.name, use.input, *results.get(use.id, (None, True))) for use in message.tool_uses])
            )
            self.seconds.append(seconds)
            results, seconds = {}, 0.0
            yield self.calls[-1]


MIN_TARGET_SHARE = 0.9
"""Share of a token target at which it counts as met."""


@frozen
class TurnOutcome:
    """The result of one turn, and the facts found out for the decision."""

    added: tuple[Message, ...] = ()
    """The messages that the turn added to the log."""
    aborted: AbortReason | None = None
    aborted_in: Literal["streaming", "tools"] = "streaming"
    blocked: str | None = None
    """Why no request was sent, if the context is full."""
    failure: Failure | None = None
    stop_reason: str | None = None
    tool_results: tuple[str, ...] = ()
    """Ids of the calls that have a result."""
    overrun: bool = False
    """Whether the output cap cut the reply and it has no finished tool call to continue from."""
    context_exceeded: bool = False
    paused: bool = False
    empty: bool = False
    refused: str | None = None
    completed_by_tool: bool = False
    """Whether a tool declared the submission complete (structured output)."""
    final: object = None
    """The output of that tool."""
    hook_stop: str | None = None
    stopped_by: StopSource = "hook"
    """Source of `hook_stop`."""
    output_tokens: int = 0
    output_room: int | None = None
    """Tokens that the context window had left for the reply; None: unknown."""
    staged_collapses: int = 0
    collapses_committed: int | None = None
    auto_compacted: bool = False
    """Whether auto-compaction was tried in this iteration, before the request."""
    compacted: bool | None = None
    """Whether the reactive compaction in this iteration worked; None: not tried."""
    summary: str = ""
    """The summary that a compaction made."""
    stop_hooks: HookVerdict | None = None
    repetition: Repetition | None = None
    """The repetition that the last turns form; None: they do not repeat."""
    loop_verdict: LoopVerdict | None = None
    prompts_wait: bool = False
    """Whether prompts are queued that the end of the work has to take in."""
    prompts_taken: bool | None = None
    """Whether queued prompts were added to the log after the work had ended; None: not tried."""


@frozen
class Find:
    """A fact is missing: find it out, then decide again."""

    fact: Literal["collapse_drain", "reactive_compact", "stop_hooks", "loop_verdict", "queued_prompts"]


LoopDecision = Continue | Stop | Find


def decide(state: LoopState, outcome: TurnOutcome, limits: Limits) -> LoopDecision:
    """Decide what follows a turn. The first row that applies wins."""
    if outcome.aborted is AbortReason.BUDGET:
        return budget_stop(limits)
    if outcome.aborted is not None:
        tools = outcome.aborted_in == "tools"
        return Stop(EndReason.ABORTED_TOOLS if tools else EndReason.ABORTED_STREAMING, words.ABORTED[outcome.aborted])
    if outcome.blocked is not None:
        return Stop(EndReason.BLOCKING_LIMIT, outcome.blocked)
    if outcome.failure is not None and outcome.failure.kind is not FailureKind.PROMPT_TOO_LONG:
        image = outcome.failure.kind is FailureKind.IMAGE
        return Stop(EndReason.IMAGE_ERROR if image else EndReason.MODEL_ERROR, outcome.failure.message)
    if outcome.failure is not None or outcome.context_exceeded:
        return _too_long(state, outcome, limits)
    if outcome.overrun:
        return _overrun(state, outcome, limits)
    if outcome.refused is not None:
        return Stop(EndReason.MODEL_ERROR, outcome.refused)
    return _decide_finished(state, outcome, limits)


def budget_stop(limits: Limits) -> Stop:
    """The stop after a spent budget, for a turn or for a compaction that the user started."""
    return Stop(EndReason.MAX_BUDGET_USD, limits.budget_text())


def _too_long(state: LoopState, outcome: TurnOutcome, limits: Limits) -> LoopDecision:
    if outcome.collapses_committed:
        return Continue(Transition.COLLAPSE_DRAIN_RETRY, {"committed": outcome.collapses_committed})
    if outcome.staged_collapses and outcome.collapses_committed is None:
        return Find("collapse_drain")
    if outcome.compacted:
        return Continue(Transition.REACTIVE_COMPACT_RETRY, {"summary": outcome.summary})
    # At most one compaction per iteration (I3): a second one right after the first would summarise its own result.
    may_compact = limits.reactive_compact and not state.reactive_compact_attempted and not outcome.auto_compacted
    if outcome.compacted is None and may_compact:
        return Find("reactive_compact")
    if outcome.failure is not None and state.only_a_prompt:
        return Stop(EndReason.PROMPT_TOO_LONG, words.PROMPT_TOO_LONG)
    said = outcome.failure.message if outcome.failure else "The conversation no longer fits into the model's context."
    return Stop(EndReason.PROMPT_TOO_LONG, said)


def _overrun(state: LoopState, outcome: TurnOutcome, limits: Limits) -> LoopDecision:
    raised = state.raised_output_cap(limits, outcome.output_room)
    if raised is not None:
        return Continue(Transition.MAX_OUTPUT_TOKENS_ESCALATE, {"cap": raised})
    if state.output_recoveries < limits.max_output_recoveries:
        attempt = state.output_recoveries + 1
        data = {"attempt": attempt, "of": limits.max_output_recoveries}
        return Continue(Transition.MAX_OUTPUT_TOKENS_RECOVERY, data)
    return Stop(
        EndReason.MODEL_ERROR,
        f"The reply ran into the output limit {state.output_recoveries + 1} times in a row. "
        "Ask for the work in smaller pieces, or raise maxOutputTokens in the settings.",
    )


def _decide_finished(state: LoopState, outcome: TurnOutcome, limits: Limits) -> LoopDecision:
    if outcome.hook_stop is not None:
        missing = outcome.stopped_by == "schema"
        return Stop(EndReason.NO_STRUCTURED_OUTPUT if missing else EndReason.HOOK_STOPPED, outcome.hook_stop)
    if outcome.completed_by_tool:
        return Stop(EndReason.COMPLETED)
    at_the_limit = limits.max_turns is not None and state.turn_count + 1 > limits.max_turns
    reached = {"type": "max_turns_reached", "max_turns": limits.max_turns, "turn_count": state.turn_count}
    too_many = Stop(EndReason.MAX_TURNS, f"Reached maximum number of turns ({limits.max_turns})", reached)
    if outcome.tool_results:
        return too_many if at_the_limit else _results(state, outcome)
    if outcome.paused and state.pauses < limits.max_pauses:
        return Continue(Transition.NEXT_TURN, {"reason": "pause_turn"})
    if outcome.empty and not state.nudged:
        return Continue(Transition.NEXT_TURN, {"reason": "empty_reply"})
    if outcome.stop_hooks is None:
        return Find("stop_hooks")
    if outcome.stop_hooks.stop is not None:
        missing = outcome.stop_hooks.by == "schema"
        terminal = EndReason.NO_STRUCTURED_OUTPUT if missing else EndReason.STOP_HOOK_PREVENTED
        return Stop(terminal, outcome.stop_hooks.stop)
    if outcome.stop_hooks.errors:
        if at_the_limit:
            return too_many
        if state.stop_hook_blocks < limits.max_stop_hook_blocks:
            by = {"by": "schema"} if outcome.stop_hooks.by == "schema" else {}
            return Continue(Transition.STOP_HOOK_BLOCKING, {"errors": list(outcome.stop_hooks.errors), **by})
        return Stop(
            EndReason.STOP_HOOK_PREVENTED,
            f"The stop hook blocked {state.stop_hook_blocks} times in a row: {outcome.stop_hooks.errors[0]}",
        )
    remaining = _target_left(state, outcome, limits)
    if remaining and not at_the_limit:
        return Continue(Transition.TOKEN_BUDGET_CONTINUATION, {"remaining": remaining})
    if outcome.prompts_taken:
        return Continue(Transition.NEXT_TURN, {"reason": "queued_prompts"})
    if outcome.prompts_wait and outcome.prompts_taken is None and not at_the_limit:
        return Find("queued_prompts")
    return Stop(EndReason.COMPLETED)


def _results(state: LoopState, outcome: TurnOutcome) -> LoopDecision:
    """Continue with the tool results, unless the model repeats itself."""
    data = {"results": list(outcome.tool_results)}
    if outcome.repetition is None:
        return Continue(Transition.NEXT_TURN, data)
    name, times = outcome.repetition.call.name, outcome.repetition.times
    if outcome.loop_verdict is None:
        return Find("loop_verdict")
    match outcome.loop_verdict.kind:
        case "continue":
            return Continue(Transition.NEXT_TURN, {**data, "loop": "allowed", "said": outcome.loop_verdict.said})
        case "polling":
            about = {"name": name, "times": times, "seconds": outcome.repetition.seconds}
            return Continue(Transition.NEXT_TURN, {**data, "loop": "polling", **about})
        case "unattended" if not state.warned_of_loop:
            return Continue(Transition.NEXT_TURN, {**data, "loop": "told", "name": name, "times": times})
    return Stop(EndReason.LOOP_DETECTED, words.loop_detected(name, times, warned=state.warned_of_loop))


def _target_left(state: LoopState, outcome: TurnOutcome, limits: Limits) -> int:
    """Tokens left until the target; 0 if there is none, it is met, or continuing gains too little."""
    if limits.token_target is None:
        return 0
    used = state.tokens.used + outcome.output_tokens
    if used >= limits.token_target * MIN_TARGET_SHARE:
        return 0
    gains = (outcome.output_tokens, state.tokens.last_gain)
    if state.tokens.continuations >= 2 and all(gain < limits.small_gain for gain in gains):
        return 0
    return limits.token_target - used
