"""Context collapse at run time: summaries of old exchanges and turns, made ahead of time by the small model.

Nothing waits for them: they are made one after another beside the requests, oldest span first, and staged when
complete. Staged summaries live as long as the process; a running one ends with the submission. `context/collapse.py`
chooses the spans and the wording. Its pipeline step commits summaries past the threshold; `drain` commits all of them
after a prompt that was too long.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentcli.agent.ports import Collapser, Staging
from agentcli.agent.side_call import SideCall
from agentcli.context.collapse import (
    SYSTEM,
    Collapse,
    Span,
    asked,
    find_spans,
    has_any,
    person_edited,
    stand_in,
    standing_notes,
)
from agentcli.context.edits import edit_to_dict
from agentcli.context.view import REPAIRS, ContextView
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.append_only import AppendOnly
from agentcli.core.messages import Message
from agentcli.providers.base import FailureKind

MAX_TRIES = 3
"""Attempts per span. An aborted attempt counts if it has to be paid."""
MAX_FAILURES = 6
"""Failures in a row, over all spans, after which the small model counts as unavailable and is not called again."""
SUMMARY_TOKENS = 2_048
LOOKED_THROUGH_EVERY = 50
"""Search all messages again when their number has grown by a fiftieth."""


class ConversationCollapse(Collapser):
    """Collapse of one conversation; `step` belongs to its pipeline."""

    def __init__(self, view: ContextView, step: Collapse) -> None:
        self._view = view
        self.step = step
        self._now: Staging | None = None
        """State before the latest request."""
        self._task: asyncio.Task[None] | None = None
        self._tries: Counter[str] = Counter()
        """Attempts per span, by the id of its first message."""
        self._failures = 0
        self._looked_through = -1
        """Number of messages when nothing was left to summarise; -1 before that."""

    def staged(self) -> int:
        return len(self.step.staged)

    def stage(self, staging: Staging, signal: AbortSignal) -> None:
        self._now = staging
        if self.step.staged:
            self.step.prune(self._one_by_one(staging.log), self._view.edits.edited)
        running = self._task is not None and not self._task.done()
        if running or signal.aborted or staging.estimate < staging.usable * self.step.thresholds.stage:
            return
        if self._failures >= MAX_FAILURES or not self._may_have_more(staging.log):
            return
        if not self._is_enough(staging):
            work = self._make_ready(signal)
            self._task = start_task(work, name="context collapse")

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ev.ContextEdited | None:
        view = self._view
        shown = self._one_by_one(log)
        plan = self.step.plan_all(shown, pinned, view.edits.edited)
        if plan is None:
            return None
        density = view.estimator.density
        edits = [replace(edit, freed=round(edit.freed * density)) for edit in plan.edits]
        view.edit(edits, after=log[-1].id)
        self.step.prune(self._one_by_one(log), view.edits.edited)
        return ev.ContextEdited(
            edits=[edit_to_dict(edit) for edit in edits],
            step=self.step.name,
            freed_tokens=sum(edit.freed for edit in edits),
            text=plan.text,
        )

    async def aclose(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    # ------------------------------------------------------------------------------------------------ in the background

    async def _make_ready(self, signal: AbortSignal) -> None:
        """Summarise one span after another until enough is staged; after a failure the rest is left to the next
        request."""
        while not signal.aborted and (staging := self._now) is not None and not self._is_enough(staging):
            span = self._next_span(staging)
            if span is None:
                self._looked_through = len(staging.log)
                return
            if not await self._summarise(span, staging, signal):
                return

    def _may_have_more(self, log: Sequence[Message]) -> bool:
        """Whether to search for a span again: not before there is another turn, and in a conversation of thousands of
        short messages not for each of them, which would take longer than the rest of the work."""
        count = self._looked_through
        return not count <= len(log) < count + max(2, len(log) // LOOKED_THROUGH_EVERY)

    def _is_enough(self, staging: Staging) -> bool:
        freed = sum(staged.freed for staged in self.step.staged.values()) * self._view.estimator.density
        return staging.estimate - freed <= staging.usable * self.step.thresholds.target

    def _next_span(self, staging: Staging) -> Span | None:
        edits = self._view.edits
        spans = find_spans(
            edits.shown(edits.in_force(staging.log)), self._list_staying(staging), self._view.estimator.message
        )
        return next((span for span in spans if self._tries[span.first] < MAX_TRIES), None)

    def _list_staying(self, staging: Staging) -> Callable[[Message], bool]:
        """A predicate for messages that must stay unchanged: pinned by the user, staged already, or the end of a
        repair."""
        edits = self._view.edits
        kept = {id for staged in self.step.staged.values() for id in staged.ids}
        until = ""
        in_log: dict[str, Message] = {}
        for message in edits.in_force(staging.log):
            in_log[message.id] = message
            until = until or edits.restored_spans.get(message.id, "")
            if until:
                kept.add(message.id)
                until = "" if message.id == until else until

        def stays(message: Message) -> bool:
            # The shown blocks may have other numbers than those in the log.
            whole = in_log.get(message.id)
            if whole is None or message.id in kept or has_any(whole, staging.pinned):
                return True
            return any(self._view.has_repair(kind, message.id) for kind in REPAIRS)

        return stays

    def _one_by_one(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """The messages that a request shows individually, as they are in the log."""
        return self._view.edits.uncollapsed(log)

    async def _summarise(self, span: Span, staging: Staging, signal: AbortSignal) -> bool:
        """Request a summary of the span and stage it. Returns whether to continue with the next span."""
        edits = self._view.edits
        ids = frozenset(span.ids)
        by_person = person_edited((message for message in staging.log if message.id in ids), edits.edited)
        notes = standing_notes(span, edits.in_force(staging.log))
        call = SideCall(staging.session)
        request = staging.session.requests.small(SYSTEM, asked(span))
        request = replace(request, max_tokens=SUMMARY_TOKENS, purpose=self.step.name)
        paid = False

        def pay(event: ev.Event) -> None:
            nonlocal paid
            paid = True
            staging.session.emit_soon(event)

        async def take(event: ev.Event) -> None:
            if isinstance(event, ev.UsageReported):
                pay(event)

        try:
            await call.run(request, signal, take, pay)
        finally:
            self._tries[span.first] += paid
        if call.failure is not None or call.stop_reason not in (None, "end_turn", "stop_sequence"):
            aborted = call.failure is not None and call.failure.kind is FailureKind.ABORTED
            self._tries[span.first] += not paid and not aborted
            self._failures += not aborted
            return False
        self._failures = 0
        text = stand_in(span, call.text or "", notes)
        if text is None:
            self._tries[span.first] = MAX_TRIES  # The next one would be no shorter.
        else:
            self.step.stage(span, text, by_person)
        return True
