"""The state of the loop between two iterations, and the names of its transitions and terminals (SPEC L4, 2.7).

`LoopState` is immutable; only `next_state` makes the state of the next iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from agentcli.context.estimate import message_tokens
from agentcli.core.events import Event
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import Message, Origin
from agentcli.core.space_saving import as_append_only
from agentcli.tools.base import ToolContext


class Transition(StrEnum):
    """Why the loop continues."""

    NEXT_TURN = "next_turn"
    COLLAPSE_DRAIN_RETRY = "collapse_drain_retry"
    REACTIVE_COMPACT_RETRY = "reactive_compact_retry"
    MAX_OUTPUT_TOKENS_ESCALATE = "max_output_tokens_escalate"
    MAX_OUTPUT_TOKENS_RECOVERY = "max_output_tokens_recovery"
    STOP_HOOK_BLOCKING = "stop_hook_blocking"
    TOKEN_BUDGET_CONTINUATION = "token_budget_continuation"  # noqa: S105


class EndReason(StrEnum):
    """Why the loop ended: the terminals."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    MAX_BUDGET_USD = "max_budget_usd"
    ABORTED_STREAMING = "aborted_streaming"
    ABORTED_TOOLS = "aborted_tools"
    BLOCKING_LIMIT = "blocking_limit"
    STOP_HOOK_PREVENTED = "stop_hook_prevented"
    HOOK_STOPPED = "hook_stopped"
    PROMPT_TOO_LONG = "prompt_too_long"
    MODEL_ERROR = "model_error"
    IMAGE_ERROR = "image_error"
    LOOP_DETECTED = "loop_detected"
    NO_STRUCTURED_OUTPUT = "no_structured_output"


@frozen
class Continue:
    """A transition and its data: `results` (the ids of the calls; the results are in the messages), `committed`
    collapses, the `summary`, the new `cap`, `attempt` and `of`, `errors`, or `remaining` tokens."""

    transition: Transition
    data: Mapping[str, Any] = field(default_factory=dict)


@frozen
class CompactTracking:
    """The history of auto-compaction in a conversation."""

    turn_of_last: int | None = None
    """Turn in which it last worked; None: it has not worked in this submission."""
    failures_in_a_row: int = 0
    changes: int = 0
    """Number of the user's changes to the context at the last failure: a later change may let it work."""


@frozen
class TokenProgress:
    """Progress of a submission towards its token target."""

    used: int = 0
    """Output tokens so far."""
    continuations: int = 0
    """Number of times the model was asked to continue."""
    last_gain: int = 0
    """Output tokens since the last continuation."""


@slotted
class PendingSummary:
    """The summary of a finished batch of tools, until its events were taken."""

    ready: list[Event] = field(default_factory=list)
    """Events that nobody has taken yet: costs, then the summary."""
    is_made: bool = False
    """Whether no further event comes."""


@frozen
class LoopState:
    """Everything that varies between iterations."""

    messages: Sequence[Message]
    tool_context: ToolContext
    compact: CompactTracking = CompactTracking()
    output_recoveries: int = 0
    reactive_compact_attempted: bool = False
    max_output_override: int | None = None
    stop_hook_active: bool = False
    stop_hook_blocks: int = 0
    turn_count: int = 1
    transition: Continue | None = None
    """The transition that led to this iteration, with its data (SPEC 2.7); None for the first."""
    tokens: TokenProgress = TokenProgress()
    pauses: int = 0
    nudged: bool = False
    """Whether the model was already notified of its empty reply."""
    warned_of_loop: bool = False
    """Whether the model was already warned that it repeats itself."""
    budget_spent: int | None = None
    """Tokens that this submission had spent at its last compaction; None before the first."""
    pending_summaries: tuple[PendingSummary, ...] = ()
    """Summaries of tool batches that are being made; each is yielded when it is ready, in whatever turn that is."""
    repeats_from: int = 0
    """Index of the first message in which to look for repetitions: those before it were allowed or reported."""

    @property
    def only_a_prompt(self) -> bool:
        """Whether the conversation has nothing but one prompt, so that nothing can be shortened."""
        origins = [message.origin for message in self.messages]
        return origins.count(Origin.PROMPT) == 1 and Origin.REPLY not in origins and Origin.SUMMARY not in origins

    def raised_output_cap(self, limits: Limits, room: int | None) -> int | None:
        """The cap with which a reply that hit the output cap is requested again; None: it was raised already or cannot
        be, so the reply is kept. `room`: tokens that the context window has left for a reply."""
        raised = limits.find_raised_cap(room)
        return raised if self.max_output_override is None and raised > limits.output_cap else None

    def adding(self, *messages: Message) -> LoopState:
        return replace(self, messages=as_append_only(self.messages).adding(*messages))

    def with_summary(self, summary: PendingSummary) -> LoopState:
        pending = tuple(one for one in self.pending_summaries if one.ready or not one.is_made)
        return replace(self, pending_summaries=(*pending, summary))

    def take_summaries(self) -> list[Event]:
        """Take the events of pending summaries that are ready."""
        taken = []
        for summary in self.pending_summaries:
            taken += summary.ready
            summary.ready.clear()
        return taken

    def with_budget_carried(self, gained_tokens: int = 0) -> LoopState:
        """Record the tokens spent before a compaction. `gained_tokens`: output not yet counted in `tokens`."""
        results = 0
        for message in reversed(self.messages):
            if message.is_copy:
                continue
            if message.origin is Origin.PROMPT:
                break
            if message.origin is Origin.TOOL_RESULTS:
                results += message_tokens(message)
        return replace(self, budget_spent=self.tokens.used + gained_tokens + results)


@frozen
class Limits:
    """Limits of a submission, known before its first request."""

    max_turns: int | None = None
    output_cap: int = 8_192
    raised_output_cap: int = 64_000
    """At most the model's own maximum."""
    max_output_recoveries: int = 3
    max_pauses: int = 10
    max_stop_hook_blocks: int = 20
    """Without it, a stop hook that always blocks would spend money for ever."""
    reactive_compact: bool = True
    token_target: int | None = None
    small_gain: int = 500
    """Two continuations in a row below this many tokens are diminishing returns."""
    budget_text: Callable[[], str] = str
    """Returns why a spent budget ends the submission, and what to do."""

    def find_raised_cap(self, room: int | None) -> int:
        """The output cap after an overrun. `room`: tokens that the context window has left for a reply."""
        raised = self.raised_output_cap if room is None else min(self.raised_output_cap, room)
        return max(raised, self.output_cap)


@frozen
class Stop:
    terminal: EndReason
    text: str = ""
    attachment: Mapping[str, Any] = field(default_factory=dict)
    """What the attachment that the terminal leaves in the log reports: its `type` and its numbers."""


def next_state(state: LoopState, decision: Continue, gained_tokens: int) -> LoopState:
    """The state of the next iteration. `state.messages` already has what this iteration added.

    Recoveries repeat a turn, so they keep the turn count; everything else is a new turn. A raised output cap and the
    count of overruns last until a turn succeeds; the reactive-compact breaker lasts for the submission.
    """
    tokens = replace(state.tokens, used=state.tokens.used + gained_tokens)
    loop = decision.data.get("loop")
    # All changes in one copy: each copy of a state takes as long as all these lines.
    changes: dict[str, Any] = {"transition": decision, "tokens": tokens}
    if loop == "told":
        changes["warned_of_loop"] = True
    if loop in ("allowed", "polling"):
        changes["repeats_from"] = len(state.messages)
    match decision.transition:
        case Transition.NEXT_TURN:
            reason = decision.data.get("reason")
            if reason == "pause_turn":
                changes["pauses"] = state.pauses + 1
            elif reason == "empty_reply":
                changes["nudged"] = True
            else:
                changes |= {**_next_turn(state), "pauses": 0, "nudged": False}
        case Transition.COLLAPSE_DRAIN_RETRY:
            pass
        case Transition.REACTIVE_COMPACT_RETRY:
            changes["reactive_compact_attempted"] = True
        case Transition.MAX_OUTPUT_TOKENS_ESCALATE:
            changes["max_output_override"] = decision.data["cap"]
        case Transition.MAX_OUTPUT_TOKENS_RECOVERY:
            changes["output_recoveries"] = state.output_recoveries + 1
        case Transition.STOP_HOOK_BLOCKING:
            changes |= {**_next_turn(state), "stop_hook_active": True, "stop_hook_blocks": state.stop_hook_blocks + 1}
        case Transition.TOKEN_BUDGET_CONTINUATION:
            progress = TokenProgress(tokens.used, tokens.continuations + 1, gained_tokens)
            changes |= {**_next_turn(state), "tokens": progress}
    return replace(state, **changes)


def _next_turn(state: LoopState) -> dict[str, Any]:
    return {"turn_count": state.turn_count + 1, "output_recoveries": 0, "max_output_override": None}
