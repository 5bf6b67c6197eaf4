"""A provider whose implementation can be replaced during a conversation, after a login or a change of server. The
engine does not notice the change.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.providers.base import ModelEvent, Provider, Request


class Connection:
    """Implements `Provider` by delegating to the current one."""

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
