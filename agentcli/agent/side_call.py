"""Requests outside of the conversation (summary, compaction): they return text, and all costs are counted. Also the
events about retries, fallbacks and advisors that every request can have, and the one-line summaries of finished tool
batches, for which nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.loop_state import PendingSummary
from agentcli.agent.ports import EmitEvent, PriceOf
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Block, Json, Message, TextBlock, block_to_wire
from agentcli.core.usage import Usage
from agentcli.providers import base as model
from agentcli.providers import base as provider
from agentcli.tools.base import SmallReply

if TYPE_CHECKING:
    from agentcli.agent.session import Session

MAX_PAUSES = 5
"""Maximum pauses per reply: the API pauses a reply for a slow server tool; sending the reply so far resumes it."""


class SideQuestions:
    """Implements `SmallModel` for one tool call: its events (usage, retries) are emitted with the call's own. The cost
    of a cancelled call is emitted by `emit_soon`: nothing waits for its events any more, but it has to be counted."""

    def __init__(self, session: Session, emit: EmitEvent) -> None:
        self._session = session
        self._emit = emit

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply:
        request = replace(
            self._session.requests.small(system, prompt), tools=server_tools, max_tokens=4_096, purpose="tool"
        )
        text, blocks = "", list[Block]()
        for _pause in range(MAX_PAUSES):
            call = SideCall(self._session.provider, self._session.price)
            try:
                async with aclosing(call.run(request, signal)) as events:
                    async for event in events:
                        await self._emit(event)
            finally:
                if (lost := call.lost_usage()) is not None:
                    self._session.emit_soon(lost)
            if call.failure is not None:
                return SmallReply("", call.failure.message)
            text += call.text or ""
            blocks += call.blocks
            if call.stop_reason != "pause_turn" or not call.blocks:
                break
            kept = [block for block in blocks if not isinstance(block, TextBlock) or block.text.strip()]
            so_far: Json = {"role": "assistant", "content": [block_to_wire(block) for block in kept]}
            request = replace(request, messages=(request.messages[0], so_far))
        return SmallReply(text, blocks=tuple(blocks))


class SideCall:
    """`run()` yields events for the consumer; then `text` is the reply, or `failure` explains why there is none."""

    def __init__(self, provider: model.Provider, price: PriceOf) -> None:
        self._provider = provider
        self._price = price
        self.text: str | None = None
        self.blocks: list[Block] = []
        self.stop_reason: str | None = None
        self.failure: model.Failure | None = None
        self._unreported: tuple[str, Usage, str] | None = None

    async def run(self, request: model.Request, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        parts: list[str] = []
        name = request.model
        self.text = self.failure = None
        async with aclosing(self._provider.stream(request, signal)) as stream:
            async for item in stream:
                match item:
                    case model.Started():
                        name = item.model
                        self._unreported = (name, item.usage, request.purpose)
                        parts.clear()
                        self.blocks.clear()
                    case model.Delta(kind="text"):
                        parts.append(item.text)
                    case model.Closed():
                        self.blocks.append(item.block)
                    case model.Broken():
                        for used in self._all_usage(item.model, item.usage, request.purpose):
                            yield used
                    case model.Finished():
                        self.text = "".join(parts)
                        self.stop_reason = item.stop_reason
                        for used in self._all_usage(name, item.usage, request.purpose):
                            yield used
                    case model.Failed():
                        self.failure = item.failure
                        self._unreported = None
                        if item.usage:
                            for used in self._all_usage(item.model, item.usage, request.purpose):
                                yield used
                    case _:
                        for event in announced(item):
                            yield event

    def lost_usage(self) -> ev.Event | None:
        """Usage that a cancelled reply had announced, if it was not reported yet."""
        return self._usage(*self._unreported) if self._unreported is not None and self._unreported[1] else None

    def _all_usage(self, name: str, usage: Usage, purpose: str) -> Iterator[ev.Event]:
        yield self._usage(name, usage, purpose)
        yield from consulted(name, usage, self._price)

    def _usage(self, name: str, usage: Usage, purpose: str) -> ev.Event:
        self._unreported = None
        cost = self._price(name, usage)
        return ev.UsageReported(model=name, usage=usage.alone, cost_usd=cost, purpose=purpose)


def consulted(answering: str, usage: Usage, price: PriceOf) -> Iterator[ev.UsageReported]:
    """The usage of models that the server consulted for a response of the model `answering`."""
    for name, used in usage.consulted:
        model = name or answering
        yield ev.UsageReported(model=model, usage=used, cost_usd=price(model, used), purpose="advisor")


def announced(item: provider.ModelEvent) -> Iterator[ev.Event]:
    match item:
        case provider.Waiting(attempt, most, seconds, failure):
            yield ev.RetryScheduled(
                attempt=attempt,
                max_attempts=most,
                wait_seconds=seconds,
                kind=failure.kind.value,
                text=failure.message,
                status=failure.status,
            )
        case provider.Quiet(seconds):
            yield ev.StreamWentQuiet(seconds=seconds)
        case provider.FellBack(old, new, reason):
            yield ev.ModelFellBack(from_model=old, to_model=new, reason=reason)
        case provider.Dropped(feature, message, name, requested):
            yield ev.FeatureDropped(feature=feature, text=message, model=name, requested=requested)
        case provider.Raw(data):
            yield ev.RawStreamed(data=data)


SYSTEM = "You write one short line, at most ten words, in the past tense, that says what these tool calls did."
SHOWN_CHARACTERS = 600


class Summaries:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, added: Sequence[Message], signal: AbortSignal) -> PendingSummary | None:
        """Start a summary of the calls and results in these messages; None without calls, or if the settings turn
        summaries off. Returns at once."""
        if not self._session.settings.tuning.tool_summaries:
            return None
        uses = [use for message in added for use in message.tool_uses]
        if not uses:
            return None
        results = {result.tool_use_id: result for message in added for result in message.tool_results}
        described = "\n\n".join(
            f"{use.name} {str(use.input)[:SHOWN_CHARACTERS]}\n-> {results[use.id].text[:SHOWN_CHARACTERS]}"
            for use in uses
            if use.id in results
        )
        summary = PendingSummary()
        coroutine = self._summarise(summary, described, [use.id for use in uses], signal)
        task = start_task(coroutine, name="tool summary")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return summary

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._tasks))

    async def _summarise(
        self, summary: PendingSummary, described: str, tool_use_ids: list[str], signal: AbortSignal
    ) -> None:
        call = SideCall(self._session.provider, self._session.price)
        try:
            async with aclosing(call.run(self._session.requests.small(SYSTEM, described), signal)) as events:
                async for event in events:
                    if isinstance(event, ev.UsageReported):
                        summary.ready.append(event)
        finally:
            summary.is_made = True
            if (lost := call.lost_usage()) is not None:
                summary.ready.append(lost)
        line = (call.text or "").strip().partition("\n")[0]
        if line:
            summary.ready.append(ev.ToolBatchSummarised(tool_use_ids=tool_use_ids, text=line[:200]))
