"""Before the call: make room if the context is nearly full, or refuse to send (SPEC 2.1 step 7, 2.2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.context.compaction import Compaction
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.recover import attachments_now
from agentcli.agent.loop.state import CompactTracking, LoopState
from agentcli.context.compact import pinned_now
from agentcli.context.steps import MOST_TURNS, ContextState, expected_turns
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Message, Origin


class Preparation:
    """`run()` yields what happened; then `state` is the one to go on with, and `blocked` says why not to."""

    def __init__(self, parts: LoopParts, state: LoopState) -> None:
        self._parts = parts
        self.state = replace(state, compact=_current(state.compact, parts.changes()))
        self.blocked: str | None = None
        self.estimate = self._estimated()

    async def run(self, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        async with aclosing(self._parts.within_budget()) as events:
            async for event in events:
                yield event
        for edited in self._parts.pipeline.run(self._parts.compact.view, self.state.messages, self._situation()):
            yield edited
            self.estimate = self._estimated()
        if self._wants_compaction() and not signal.aborted:
            compaction = Compaction(replace(self._parts.compacting, budget_spent=self.state.budget_spent), "auto")
            async with aclosing(compaction.run(self.state.messages, signal)) as events:
                async for event in events:
                    yield event
            self.state = self.state.adding(*compaction.messages)
            if compaction.messages:
                self.state = self.state.with_budget_carried()
                for message in await attachments_now(self._parts, self.state, signal):
                    self.state = self.state.adding(message)
                    yield ev.MessageAppended(message=message)
            self.estimate = self._estimated()
            async with aclosing(self._parts.within_budget()) as events:
                async for event in events:
                    yield event
            if not signal.aborted:
                tracking = self._tracked(worked=bool(compaction.messages))
                self.state = replace(self.state, compact=tracking)
                self._parts.tracked(tracking)
                if tracking.failures_in_a_row == self._parts.context.max_auto_failures:
                    yield ev.NoticeRaised(text=self._given_up(compaction.problem), level="warning", code="compact")
        if self._is_full() and not signal.aborted:
            usable, alone = self._parts.context.usable, self.state.only_a_prompt
            self.blocked = words.blocking_limit(self.estimate, usable, only_a_prompt=alone)

    def _situation(self) -> Callable[[int], ContextState]:
        parts, before = self._parts, self.estimate
        view, watch = parts.compact.view, parts.watch
        cold = watch.cold(parts.turn.clock.monotonic())
        pinned = pinned_now(view.messages(self.state.messages), parts.compact.pinned) if parts.compact.pinned else ()

        turns = self._turns_to_come()

        def situation(freed: int) -> ContextState:
            return ContextState(
                estimate=before - freed,
                usable=parts.context.usable,
                cached=watch.cached_tokens,
                cache_cold=cold,
                price=parts.price,
                pinned=frozenset(pinned),
                turns_to_come=turns,
                long_lived=watch.long_lived,
            )

        return situation

    def _turns_to_come(self) -> int:
        earlier = max(0, _recent_replies(self.state.messages) - self.state.turn_count + 1)
        return expected_turns(self.state.turn_count, self._parts.limits.max_turns, earlier)

    def _estimated(self) -> int:
        return self._parts.compact.view.estimate(self.state.messages, self._parts.context.overhead)

    def _wants_compaction(self) -> bool:
        context = self._parts.context
        return (
            context.auto_compact
            and self.state.compact.failures_in_a_row < context.max_auto_failures
            and self.estimate >= context.usable * context.auto_threshold
        )

    def _tracked(self, *, worked: bool) -> CompactTracking:
        """A compaction that leaves the context over the threshold has not helped; it counts as a failure."""
        known = self.state.compact
        if worked and not self._wants_compaction():
            return CompactTracking(turn_of_last=self.state.turn_count, changes=known.changes)
        return replace(known, failures_in_a_row=known.failures_in_a_row + 1)

    def _given_up(self, problem: str | None) -> str:
        context = self._parts.context
        still = f"it left {self.estimate:,} tokens, and there is room for {context.usable:,}"
        return words.gave_up_compacting(context.max_auto_failures, problem or still)

    def _is_full(self) -> bool:
        reactive = self._parts.limits.reactive_compact and not self.state.reactive_compact_attempted
        way_out = self._parts.context.auto_compact or reactive or self._parts.seams.collapser.staged()
        return not way_out and self.estimate >= self._parts.context.usable


def _recent_replies(messages: Sequence[Message]) -> int:
    """Replies since the last compaction; no more are counted than are ever counted on."""
    count = 0
    for message in reversed(messages):
        if message.origin is Origin.BOUNDARY or count >= MOST_TURNS:
            break
        count += message.origin is Origin.REPLY
    return count


def _current(tracking: CompactTracking, changes: int) -> CompactTracking:
    """What failed before the person changed something does not count."""
    if tracking.changes == changes:
        return tracking
    return CompactTracking(turn_of_last=tracking.turn_of_last, changes=changes)
