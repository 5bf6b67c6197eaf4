"""Providers that delegate to another one: it can be replaced during a conversation, or is made by the first request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

from agentcli.core.abort import AbortSignal
from agentcli.core.errors import AgentError
from agentcli.providers.base import Failed, Failure, FailureKind, ModelEvent, Provider, Request


class Connection:
    """A provider that is replaced after a login or a change of server. The engine does not notice the change."""

    def __init__(self) -> None:
        self.key_source = "none"
        self.problem = ""
        """Why no model can be used, and what to do; empty if one can."""
        self._provider: Provider | None = None
        self._retired: list[Provider] = []

    def use(self, provider: Provider, key_source: str, problem: str = "") -> None:
        """Use `provider` from the next request on. A running request continues with the old one, which stays open."""
        if self._provider is not None:
            self._retired.append(self._provider)
        self._provider, self.key_source, self.problem = provider, key_source, problem

    @property
    def name(self) -> str:
        return self._in_use.name

    @name.setter
    def name(self, _name: str) -> None:
        raise AttributeError("a connection is named by the provider in use")

    def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        return self._in_use.stream(request, signal)

    def first_model(self, request: Request) -> str:
        return self._in_use.first_model(request)

    async def warm(self) -> None:
        await self._in_use.warm()

    async def aclose(self) -> None:
        retired, self._retired = self._retired, []
        for provider in (*retired, self._in_use):
            await provider.aclose()

    @property
    def _in_use(self) -> Provider:
        assert self._provider is not None, "a connection is used after something was connected"
        return self._provider


class PluginProvider:
    """A provider that is made when it is first needed, because plugins load after the start."""

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
