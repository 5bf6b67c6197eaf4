"""A request beside the conversation (summary, compaction): text out, everything it costs counted (SPEC 3.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentcli.agent.ports import PriceOf
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.usage import Usage
from agentcli.providers import base as model


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
