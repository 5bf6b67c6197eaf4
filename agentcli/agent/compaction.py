"""Compaction, the running part: one implementation for its three triggers, manual, auto and reactive (SPEC 4).

It changes nothing by itself: on success `messages` holds the boundary and the summary for the log; on a failure or an
abort it holds nothing and the conversation is exactly as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from agentcli.agent.ports import Hooks, PriceOf, Requests
from agentcli.agent.sidecall import SideCall
from agentcli.context import compact as words
from agentcli.context.estimate import context_tokens, message_tokens
from agentcli.context.normalise import normalise
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import Message, Origin, user_message
from agentcli.providers.base import FailureKind, Provider

MAX_SUMMARY_TOKENS = 16_000


@frozen
class CompactParts:
    provider: Provider
    requests: Requests
    view: View
    hooks: Hooks
    price: PriceOf
    ids: Ids
    overhead: int = 0


class Compaction:
    def __init__(self, parts: CompactParts, trigger: str, focus: str = "") -> None:
        self._parts = parts
        self._trigger = trigger
        self._focus = focus
        self.messages: tuple[Message, ...] = ()

    async def run(self, log: Sequence[Message], signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        parts = self._parts
        shown = parts.view.messages(log)
        before = context_tokens(shown, parts.overhead)
        yield ev.CompactionStarted(trigger=self._trigger)
        focus = await parts.hooks.before_compact(self._trigger, self._focus)
        call = SideCall(parts.provider, parts.price)
        asked: tuple[Message, ...] | None = shown
        while asked is not None:
            last = user_message(words.instruction(focus), "compact-instruction", Origin.RECOVERY)
            request = parts.requests.build(normalise((*asked, last)), MAX_SUMMARY_TOKENS, "compact", 0)
            yield ev.RequestStarted(model=request.model, turn=0, purpose="compact", estimated_tokens=before)
            async with aclosing(call.run(request, signal)) as events:
                async for event in events:
                    yield event
            if call.failure is None or call.failure.kind is not FailureKind.PROMPT_TOO_LONG or signal.aborted:
                break
            asked = words.without_oldest(asked)
        problem = self._problem(call, shown, signal)
        if problem is not None:
            yield ev.CompactionFailed(trigger=self._trigger, text=problem)
            return
        ids = (parts.ids.new(), parts.ids.new())
        boundary, summary = words.compacted(call.text or "", shown, ids, self._trigger, before)
        self.messages = (boundary, summary)
        yield ev.MessageAppended(message=boundary)
        yield ev.MessageAppended(message=summary)
        yield ev.ContextCompacted(
            trigger=self._trigger, tokens_before=before, tokens_after=parts.overhead + message_tokens(summary)
        )
        await parts.hooks.after_compact(self._trigger)

    def _problem(self, call: SideCall, shown: Sequence[Message], signal: AbortSignal) -> str | None:
        if signal.aborted:
            return "Compaction was interrupted; the conversation is as it was."
        if call.failure is not None:
            return f"The conversation could not be shortened: {call.failure.message}"
        text = (call.text or "").strip()
        if not text:
            return "The model gave no summary; the conversation is as it was."
        summary = user_message(words.summary_text(text, shown), "", Origin.SUMMARY)
        if message_tokens(summary) >= sum(map(message_tokens, shown)):
            return "The summary would be longer than what it replaces; the conversation is as it was."
        return None
