"""A provider that is created when it is first needed, e.g. by a plugin that loads after the start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

from agentcli.core.abort import AbortSignal
from agentcli.core.errors import AgentError
from agentcli.providers.base import Failed, Failure, FailureKind, ModelEvent, Provider, Request


class LateProvider:
    """Implements `Provider` by delegating to the one that `make` returns."""

    def __init__(self, name: str, make: Callable[[], Awaitable[Provider]]) -> None:
        """`make` raises `AgentError` if there is none: the request fails with its text, and the next one tries
        again."""
        self.name = name
        self._make = make
        self._made: Provider | None = None
        self._making = asyncio.Lock()

    async def _provider(self) -> Provider:
        async with self._making:
            if self._made is None:
                self._made = await self._make()
            return self._made

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        try:
            provider = await self._provider()
        except AgentError as error:
            yield Failed(Failure(FailureKind.INVALID_REQUEST, str(error)))
            return
        async with aclosing(provider.stream(request, signal)) as events:
            async for event in events:
                yield event

    def first_model(self, request: Request) -> str:
        return self._made.first_model(request) if self._made is not None else request.model

    async def warm(self) -> None:
        with suppress(AgentError):
            await (await self._provider()).warm()

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()
