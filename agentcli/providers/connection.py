"""The way to a model, which another can take the place of while the conversation goes on: after a login, or when a
server is chosen. The engine holds this and never learns of the change."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.providers.base import ModelEvent, Provider, Request


class Connection:
    """Implements `Provider` by whichever one is in use."""

    def __init__(self) -> None:
        self.key_source = "none"
        """Where the key came from, for people."""
        self.problem = ""
        """Why no model can be asked, and what to do; empty when one can."""
        self._provider: Provider | None = None
        self._retired: list[Provider] = []

    def use(self, provider: Provider, key_source: str, problem: str = "") -> None:
        """From the next request on. One that runs goes on with the old provider, which is kept open for it."""
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

    def begins_with(self, request: Request) -> str:
        return self._in_use.begins_with(request)

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
