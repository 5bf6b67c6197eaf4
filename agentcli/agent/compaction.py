"""Compaction, the running part: one implementation for its three triggers, manual, auto and reactive (SPEC 4).

It changes nothing by itself: on success `messages` holds the boundary and the summary for the log; on a failure or an
abort it holds nothing and the conversation is exactly as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from agentcli.agent.ports import Hooks, PriceOf, Requests
from agentcli.agent.sidecall import SideCall
from agentcli.context import compact as words
from agentcli.context.estimate import context_tokens, message_tokens
from agentcli.context.normalise import normalise
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import Message, Origin, ToolUseBlock, user_message
from agentcli.providers.base import FailureKind, Provider

MAX_SUMMARY_TOKENS = 16_000
RAISED_SUMMARY_TOKENS = 48_000
INTERRUPTED = "Compaction was interrupted; the conversation is as it was."


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
        self._text = ""
        self._problem: str | None = None
        self.messages: tuple[Message, ...] = ()

    async def run(self, log: Sequence[Message], signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        parts = self._parts
        shown = parts.view.messages(log)
        before = context_tokens(shown, parts.overhead)
        old, pending = words.split_pending(shown)
        yield ev.CompactionStarted(trigger=self._trigger)
        async with aclosing(self._summarised(old, before, signal)) as events:
            async for event in events:
                yield event
        if self._problem is not None:
            yield ev.CompactionFailed(trigger=self._trigger, text=self._problem)
            return
        ids = (parts.ids.new(), parts.ids.new())
        boundary, summary = words.compacted(self._text, old, ids, self._trigger, before)
        # What nobody has answered yet is said again behind the boundary, word for word and with its pictures.
        kept = (replace(message, id=parts.ids.new()) for message in pending)
        self.messages = (boundary, summary, *kept)
        for message in self.messages:
            yield ev.MessageAppended(message=message)
        after = parts.overhead + sum(map(message_tokens, self.messages))
        yield ev.ContextCompacted(trigger=self._trigger, tokens_before=before, tokens_after=after)
        with suppress(Aborted):
            await signal.run(parts.hooks.after_compact(self._trigger))

    async def _summarised(
        self, old: tuple[Message, ...], before: int, signal: AbortSignal
    ) -> AsyncGenerator[ev.Event, None]:
        """Ask for the summary until there is one or no further way to ask; sets `_text` or `_problem`."""
        asking = _Asking(old)
        if not old:
            self._problem = "There is nothing to shorten yet; the conversation is as it was."
            return
        try:
            focus = await signal.run(self._parts.hooks.before_compact(self._trigger, self._focus))
        except Aborted:
            self._problem = INTERRUPTED
            return
        while True:
            last = user_message(words.instruction(focus), "compact-instruction", Origin.RECOVERY)
            wire = normalise((*asking.messages, last))
            request = self._parts.requests.build(wire, asking.max_tokens, "compact", 0)
            request = replace(request, forbid_tools=asking.forbid_tools)
            yield ev.RequestStarted(model=request.model, turn=0, purpose="compact", estimated_tokens=before)
            call = SideCall(self._parts.provider, self._parts.price)
            async with aclosing(call.run(request, signal)) as events:
                async for event in events:
                    yield event
            if signal.aborted:
                self._problem = INTERRUPTED
                return
            following = asking.again(call)
            if following is None:
                break
            asking = following
        self._problem = _wrong_with(call, old)
        self._text = (call.text or "").strip()


@frozen
class _Asking:
    """One way to ask for the summary, and the next when it did not work."""

    messages: tuple[Message, ...]
    max_tokens: int = MAX_SUMMARY_TOKENS
    forbid_tools: bool = False
    """Only after the model has called one: forbidding them changes the request and costs the cache of the history."""

    def again(self, call: SideCall) -> _Asking | None:
        if call.failure is not None:
            if call.failure.kind is not FailureKind.PROMPT_TOO_LONG:
                return None
            shorter = words.without_oldest(self.messages)
            return None if shorter is None else replace(self, messages=shorter)
        if any(isinstance(block, ToolUseBlock) for block in call.blocks) and not self.forbid_tools:
            return replace(self, forbid_tools=True)
        if call.stop_reason == "max_tokens" and self.max_tokens < RAISED_SUMMARY_TOKENS:
            return replace(self, max_tokens=RAISED_SUMMARY_TOKENS)
        return None


def _wrong_with(call: SideCall, old: Sequence[Message]) -> str | None:
    """Why a reply is no summary; None if it is one. Whatever it is, the conversation has not changed."""
    if call.failure is not None:
        return f"The conversation could not be shortened: {call.failure.message}"
    if call.stop_reason not in (None, "end_turn", "stop_sequence"):
        return f"The model gave no whole summary ({call.stop_reason}); the conversation is as it was."
    if not (call.text or "").strip():
        return "The model gave no summary; the conversation is as it was."
    summary = user_message(words.summary_text(call.text or "", old), "", Origin.SUMMARY)
    if message_tokens(summary) >= sum(map(message_tokens, old)):
        return "The summary would be longer than what it replaces; the conversation is as it was."
    return None
