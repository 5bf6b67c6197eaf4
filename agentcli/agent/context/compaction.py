"""Compaction at run time: one implementation for its three triggers, manual, auto and reactive.

It changes nothing: on success `messages` holds the boundary and what follows it for the log; on a failure, an
abort or a user's no it holds nothing and the conversation is exactly as it was. Nothing is awaited between the first
and the last of these messages, and a boundary without all of them does not count (`context.edits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.context.compaction_plan import CompactionDraft, draft_compaction
from agentcli.agent.ports import Questions, ask_hooks, hook_message
from agentcli.agent.side_call import SideCall
from agentcli.context import compact as words
from agentcli.context.estimate import message_tokens
from agentcli.context.view import ContextView, normalise
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, Origin, ToolUseBlock, user_message
from agentcli.core.permission import Answer
from agentcli.core.space_saving import AppendOnly
from agentcli.core.usage import Usage
from agentcli.providers.base import FailureKind

if TYPE_CHECKING:
    from agentcli.agent.session import Session

MAX_SUMMARY_TOKENS = 16_000
RAISED_SUMMARY_TOKENS = 48_000
MIN_SUMMARY_TOKENS = 4_000
BLOCKED = "A hook blocked the compaction. The conversation is unchanged."
INTERRUPTED = "Compaction was interrupted. The conversation is unchanged."
_CANCELLED = "Compaction was cancelled. The conversation is unchanged."
NOTHING_YET = "There is nothing to compact yet. The conversation is unchanged."
NO_SUMMARY = "The model gave no summary. The conversation is unchanged."
INFLATING = "The summary would be longer than what it replaces. The conversation is unchanged."
LITTLE_TO_GAIN = "Compacting would free very little. The conversation is unchanged. /context shows what fills it."
FIXED = "the system prompt, the tools and instructions"
PINNED_TOO_MUCH = "With the pinned items, compacting would free nothing. Unpin something in /context."


@frozen
class CompactArguments:
    """Arguments of a user's `/compact`."""

    focus: str = ""
    review: bool = False
    """Show the summary before it takes effect."""


class _Unchanged(Exception):
    """The reason, for the user, why there is no compaction. Used in this module alone."""


class Compaction:
    """Results: `messages`, empty if nothing changed, `problem` and `summary`.

    `review`: source of the user's answer; None: no question is asked (headless, auto, reactive).
    """

    def __init__(
        self,
        session: Session,
        trigger: str,
        log: Sequence[Message],
        signal: AbortSignal,
        focus: str = "",
        review: Questions | None = None,
        budget_spent: int | None = None,
    ) -> None:
        """`budget_spent` as in `LoopState`."""
        self._session = session
        self._budget_spent = budget_spent
        self._log = log
        self._signal = signal
        self._trigger = trigger
        self._focus = focus
        self._review = review
        self.summary = ""
        """Summary by the model, possibly edited by the user."""
        self._model = ""
        self.problem: str | None = None
        """Why nothing has changed, for the user."""
        self._cost: float | None = 0.0
        self._scale = 1.0
        """Measured per estimated tokens of the conversation: below 1 where a server counts fewer than estimated."""
        self._is_fast = False
        self.cancelled = False
        """The user has rejected the summary."""
        self.messages: tuple[Message, ...] = ()

    async def run(self) -> None:
        session, emit, log, signal = self._session, self._session.emit, self._log, self._signal
        view, overhead = session.view, session.requests.overhead_tokens()
        before = view.estimate(log, overhead)
        estimated = overhead + view.estimator.total(view.messages(log))
        self._scale = min(1.0, before / max(1.0, estimated))
        await emit(ev.CompactionStarted(trigger=self._trigger))
        try:
            log = log if session.log.is_whole else await signal.run(session.log.whole(log))
            await self._summarise(log, before, signal)
            draft = await self._review_draft(log, before, signal)
        except (Aborted, _Unchanged) as reason:
            interrupted = isinstance(reason, Aborted)
            self.problem = INTERRUPTED if interrupted else str(reason)
            await emit(
                ev.CompactionFailed(
                    trigger=self._trigger, text=self.problem, cancelled=self.cancelled, interrupted=interrupted
                )
            )
            return
        following = draft.messages
        after = self._after(log, following)
        self.messages = (words.boundary(session.ids.new(), self._trigger, (before, after), following), *following)
        for message in self.messages:
            await emit(ev.MessageAppended(message=message))
        await emit(ev.ContextCompacted(trigger=self._trigger, tokens_before=before, tokens_after=after))
        await self._run_hooks_after()

    async def _run_hooks_after(self) -> None:
        """Run the hooks after a compaction; their texts for the model follow the summary."""
        session, signal, trigger = self._session, self._signal, self._trigger
        texts: tuple[str, ...] = ()
        with suppress(Aborted):
            await ask_hooks(session.hooks, lambda hooks: hooks.after_compact(trigger), signal, session.emit)
            texts = await ask_hooks(session.hooks, lambda hooks: hooks.before_session("compact"), signal, session.emit)
        if texts:
            message = hook_message(texts, session.ids.new())
            self.messages = (*self.messages, message)
            await session.emit(ev.MessageAppended(message=message))

    # ------------------------------------------------------------------------------------------------ the summary

    async def _summarise(self, log: Sequence[Message], before: int, signal: AbortSignal) -> None:
        """Request the summary, in other ways if the first fails; sets `summary`. Raises `Aborted` or `_Unchanged`."""
        session = self._session
        attempt = _SummaryRequest.first(session.view, log, self._trigger, session.context_limits.window - before)
        if attempt is None:
            raise _Unchanged(NOTHING_YET)
        focus = await ask_hooks(
            session.hooks, lambda hooks: hooks.before_compact(self._trigger, self._focus), signal, session.emit
        )
        if focus is None:
            raise _Unchanged(BLOCKED)
        while True:
            request = session.requests.build(attempt.wire(focus), attempt.max_tokens, "compact", self._budget_spent)
            request = replace(request, forbid_tools=attempt.forbid_tools)
            self._model = model = request.model
            await session.emit(ev.RequestStarted(model=model, turn=0, purpose="compact", estimated_tokens=before))
            call = SideCall(session)
            await call.run(request, signal, self._count)
            if signal.reason is not None:
                raise Aborted(signal.reason)
            following = attempt.again(call)
            if following is None:
                break
            attempt = following
        self.summary = (call.text or "").strip()
        if call.failure is not None:
            raise _Unchanged(f"The conversation could not be compacted: {call.failure.message}")
        if call.stop_reason not in (None, "end_turn", "stop_sequence"):
            raise _Unchanged(f"The model's summary is incomplete ({call.stop_reason}). The conversation is unchanged.")
        if not self.summary:
            raise _Unchanged(NO_SUMMARY)

    async def _count(self, event: ev.Event) -> None:
        await self._session.emit(event)
        if isinstance(event, ev.UsageReported):
            self._is_fast = event.usage.fast
            known = self._cost is not None and event.cost_usd is not None
            self._cost = (self._cost or 0.0) + (event.cost_usd or 0.0) if known else None

    # --------------------------------------------------------------------------------------------- the draft

    async def _review_draft(self, log: Sequence[Message], before: int, signal: AbortSignal) -> CompactionDraft:
        """Draft the messages for the log and, where a user can be asked, show them for approval. Raises `Aborted` or
        `_Unchanged`."""
        draft = await self._draft(log, signal)
        if self._review is None:
            return draft
        request_id = self._session.ids.new()
        answer = self._review.ask(request_id)
        try:
            await self._session.emit(self._propose(request_id, log, before, draft))
            self._take(await signal.run(answer))
        finally:
            self._review.withdraw(request_id)
        # Files may have changed while the user was reading.
        return await self._draft(log, signal)

    async def _draft(self, log: Sequence[Message], signal: AbortSignal) -> CompactionDraft:
        draft = await draft_compaction(self._session, log, self.summary, signal, manual=self._trigger == "manual")
        summary = message_tokens(user_message(words.summary_text(self.summary), "", Origin.SUMMARY))
        if summary >= draft.old_tokens:
            raise _Unchanged(INFLATING)
        if sum(map(message_tokens, draft.messages)) >= draft.old_tokens + draft.pending_tokens:
            raise _Unchanged(PINNED_TOO_MUCH if draft.has_pins else LITTLE_TO_GAIN)
        if signal.reason is not None:
            raise Aborted(signal.reason)
        return draft

    def _propose(
        self, request_id: str, log: Sequence[Message], before: int, draft: CompactionDraft
    ) -> ev.CompactionProposed:
        after = self._after(log, draft.messages)
        scale = self._scale
        fixed = max(0, after - round(scale * sum(map(message_tokens, draft.messages))))

        def lines(shares: Iterable[words.Share], *more: words.Share) -> list[str]:
            scaled = (*more, *((what, round(tokens * scale)) for what, tokens in shares))
            return [f"{what} (about {tokens:,} tokens)" for what, tokens in scaled]

        return ev.CompactionProposed(
            request_id=request_id,
            summary=self.summary,
            tokens_before=before,
            tokens_after=after,
            cost_usd=self._cost,
            kept=lines(draft.kept, *(((FIXED, fixed),) if fixed > 10 else ())),
            dropped=lines(draft.gone),
            added=lines(draft.added),
            turn_usd_before=self._session.price(self._model, Usage(cache_read_input_tokens=before, fast=self._is_fast)),
            turn_usd_after=self._session.price(self._model, Usage(cache_read_input_tokens=after, fast=self._is_fast)),
        )

    def _take(self, answer: Answer) -> None:
        if answer.behavior == "deny":
            self.cancelled = True
            raise _Unchanged(_CANCELLED)
        edited = (answer.updated_input or {}).get("summary", self.summary)
        self.summary = edited.strip() if isinstance(edited, str) else self.summary
        if not self.summary:
            raise _Unchanged(NO_SUMMARY)

    def _after(self, log: Sequence[Message], following: Sequence[Message]) -> int:
        """Size of the next request after the compaction, estimated as everywhere else."""
        marker = words.boundary("", self._trigger, (0, 0), following)
        overhead = self._session.requests.overhead_tokens()
        return round(self._scale * self._session.view.estimate((*log, marker, *following), overhead))


# ----------------------------------------------------------------------------------------------- request variants


@frozen
class _SummaryRequest:
    """One way to request the summary; `again` returns the next one to try."""

    view: ContextView
    log: tuple[Message, ...]
    """Sent with the bytes of the next request, so that most of it is read from the cache; until that is too long."""
    pending: frozenset[str]
    max_tokens: int
    most_tokens: int
    shed: tuple[Message, ...] | None = None
    """The messages left after dropping the oldest exchanges."""
    forbid_tools: bool = False
    """Set only after the model has called a tool: forbidding tools changes the request and loses the cached history."""

    @classmethod
    def first(cls, view: ContextView, log: Sequence[Message], trigger: str, room: int) -> _SummaryRequest | None:
        """The first way to try; None if there is nothing to summarise. After a prompt that was too long, messages
        without an answer are left out at once: they are kept word for word anyway."""
        old, pending = words.split_pending(view.messages(log))
        if not old:
            return None
        room = max(room - 1_000, MIN_SUMMARY_TOKENS)
        caps = min(MAX_SUMMARY_TOKENS, room), min(RAISED_SUMMARY_TOKENS, room)
        attempt = cls(view, tuple(log), frozenset(message.id for message in pending), *caps)
        return attempt._leave_out_pending() if trigger == "reactive" else attempt

    def wire(self, focus: str) -> AppendOnly[Json]:
        last = user_message(words.instruction(focus), "compact-instruction", Origin.RECOVERY)
        return self.view.wire((*self.log, last)) if self.shed is None else normalise((*self.shed, last))

    def again(self, call: SideCall) -> _SummaryRequest | None:
        if call.failure is not None:
            return self._shorter() if call.failure.kind is FailureKind.PROMPT_TOO_LONG else None
        if any(isinstance(block, ToolUseBlock) for block in call.blocks) and not self.forbid_tools:
            return replace(self, forbid_tools=True)
        if call.stop_reason == "max_tokens" and self.max_tokens < self.most_tokens:
            return replace(self, max_tokens=self.most_tokens)
        return None

    def _leave_out_pending(self) -> _SummaryRequest:
        left = tuple(message for message in self.log if message.id not in self.pending)
        return replace(self, log=left, pending=frozenset())

    def _shorter(self) -> _SummaryRequest | None:
        if self.pending:
            return self._leave_out_pending()
        asked = self.view.messages(self.log) if self.shed is None else self.shed
        shorter = words.without_oldest(asked) or words.with_longest_cut(asked)
        return None if shorter is None else replace(self, shed=shorter)
