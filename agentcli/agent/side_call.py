"""Requests outside of the conversation (summary, compaction): they return text, and all costs are counted. Also the
events about retries, fallbacks and advisors that every request can have, and the one-line summaries of finished tool
batches, for which nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.loop_state import PendingSummary
from agentcli.agent.ports import EmitEvent, PriceOf
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal, cancel_and_wait, start_task
from agentcli.core.messages import Block, Json, Message, TextBlock, block_to_wire
from agentcli.core.usage import Usage
from agentcli.providers import base as model
from agentcli.tools.base import SmallReply

if TYPE_CHECKING:
    from agentcli.agent.session import Session

MAX_PAUSES = 5
"""Maximum pauses per reply: the API pauses a reply for a slow server tool; sending the reply so far resumes it."""


class SideQuestions:
    """Implements `SmallModel` for one tool call: its events (usage, retries) are emitted with the call's own."""

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
            call = SideCall(self._session)
            await call.run(request, signal, self._emit)
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
    """One request; after `run`, `text` is the reply, or `failure` explains why there is none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.text: str | None = None
        self.blocks: list[Block] = []
        self.stop_reason: str | None = None
        self.failure: model.Failure | None = None

    async def run(
        self,
        request: model.Request,
        signal: AbortSignal,
        emit: EmitEvent,
        lost: Callable[[ev.Event], object] | None = None,
    ) -> None:
        """`emit` gets retries and usage. `lost` gets the usage of a cancelled reply, for whose events nothing waits any
        more: by default `Session.emit_soon`."""
        parts: list[str] = []
        name, unreported = request.model, Usage()
        try:
            async with aclosing(self._session.provider.stream(request, signal)) as stream:
                async for item in stream:
                    match item:
                        case model.Started():
                            name, unreported = item.model, item.usage
                            parts.clear()
                            self.blocks.clear()
                        case model.Delta(kind="text"):
                            parts.append(item.text)
                        case model.Closed():
                            self.blocks.append(item.block)
                        case model.Finished() | model.Broken() | model.Failed():
                            if isinstance(item, model.Finished):
                                self.text, self.stop_reason = "".join(parts), item.stop_reason
                            elif isinstance(item, model.Failed):
                                self.failure = item.failure
                            answering = name if isinstance(item, model.Finished) else item.model
                            unreported = Usage()
                            for used in self._usage(answering, item.usage, request.purpose):
                                await emit(used)
                        case _:
                            for event in make_announcements(item):
                                await emit(event)
        finally:
            for used in self._usage(name, unreported, request.purpose):
                (lost or self._session.emit_soon)(used)

    def _usage(self, name: str, usage: Usage, purpose: str) -> Iterator[ev.UsageReported]:
        if usage:
            cost = self._session.price(name, usage)
            yield ev.UsageReported(model=name, usage=usage.alone, cost_usd=cost, purpose=purpose)
            yield from list_consulted(name, usage, self._session.price)


def list_consulted(answering: str, usage: Usage, price: PriceOf) -> Iterator[ev.UsageReported]:
    """The usage of models that the server consulted for a response of the model `answering`."""
    for name, used in usage.consulted:
        model = name or answering
        yield ev.UsageReported(model=model, usage=used, cost_usd=price(model, used), purpose="advisor")


def make_announcements(item: model.ModelEvent) -> Iterator[ev.Event]:
    match item:
        case model.Waiting(attempt, most, seconds, failure):
            yield ev.RetryScheduled(
                attempt=attempt,
                max_attempts=most,
                wait_seconds=seconds,
                kind=failure.kind.value,
                text=failure.message,
                status=failure.status,
            )
        case model.Quiet(seconds):
            yield ev.StreamWentQuiet(seconds=seconds)
        case model.FellBack(old, new, reason):
            yield ev.ModelFellBack(from_model=old, to_model=new, reason=reason)
        case model.Dropped(feature, message, name, requested):
            yield ev.FeatureDropped(feature=feature, text=message, model=name, requested=requested)
        case model.Raw(data):
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
        call, ready = SideCall(self._session), summary.ready

        async def take(event: ev.Event) -> None:
            if isinstance(event, ev.UsageReported):
                ready.append(event)

        try:
            await call.run(self._session.requests.small(SYSTEM, described), signal, take, ready.append)
        finally:
            summary.is_made = True
        line = (call.text or "").strip().partition("\n")[0]
        if line:
            ready.append(ev.ToolBatchSummarised(tool_use_ids=tool_use_ids, text=line[:200]))
