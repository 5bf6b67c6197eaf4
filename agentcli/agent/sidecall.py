"""A request beside the conversation (summary, compaction): text out, everything it costs counted (SPEC 3.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.ports import PriceOf, Requests
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.usage import Usage
from agentcli.providers import base as model
from agentcli.tools.base import SmallReply

Emit = Callable[[ev.Event], Awaitable[None]]


class SideQuestions:
    """Implements `SmallModel` for one tool call: its events (usage, retries) go where the call's own go."""

    def __init__(self, provider: model.Provider, requests: Requests, price: PriceOf, emit: Emit) -> None:
        self._provider = provider
        self._requests = requests
        self._price = price
        self._emit = emit

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply:
        call = SideCall(self._provider, self._price)
        request = replace(self._requests.small(system, prompt), tools=server_tools, max_tokens=4_096, purpose="tool")
        async with aclosing(call.run(request, signal)) as events:
            async for event in events:
                await self._emit(event)
        if call.failure is not None:
            return SmallReply("", call.failure.message)
        return SmallReply(call.text or "")


class SideCall:
    """`run()` yields what a consumer should know; then `text` is the reply's, or `failure` says why there is none."""

    def __init__(self, provider: model.Provider, price: PriceOf) -> None:
        self._provider = provider
        self._price = price
        self.text: str | None = None
        self.failure: model.Failure | None = None

    async def run(self, request: model.Request, signal: AbortSignal) -> AsyncGenerator[ev.Event, None]:
        parts: list[str] = []
        name = request.model
        self.text = self.failure = None
        async with aclosing(self._provider.stream(request, signal)) as stream:
            async for item in stream:
                match item:
                    case model.Started():
                        name = item.model
                        parts.clear()
                    case model.Delta(kind="text"):
                        parts.append(item.text)
                    case model.Broken():
                        yield self._usage(item.model, item.usage, request.purpose)
                    case model.Waiting():
                        yield ev.RetryScheduled(
                            attempt=item.attempt,
                            max_attempts=item.max_attempts,
                            wait_seconds=item.seconds,
                            kind=item.failure.kind.value,
                            text=item.failure.message,
                            status=item.failure.status,
                        )
                    case model.Finished():
                        self.text = "".join(parts)
                        yield self._usage(name, item.usage, request.purpose)
                    case model.Failed():
                        self.failure = item.failure
                        if item.usage:
                            yield self._usage(item.model, item.usage, request.purpose)

    def _usage(self, name: str, usage: Usage, purpose: str) -> ev.Event:
        return ev.UsageReported(model=name, usage=usage, cost_usd=self._price(name, usage), purpose=purpose)
