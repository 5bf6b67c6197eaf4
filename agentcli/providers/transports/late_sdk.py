"""The direct API in interactive sessions: `wire.py` sends the first requests, the anthropic package the later ones.

Importing the package takes over a second of processor time, which would slow down the start. It is imported once the
session has been idle after a reply. Both transports send the same body, so the prompt cache is not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Json
from agentcli.providers.transports.base import Transport

IDLE_SECONDS = 10.0
"""Time without a request after a reply until the package is imported."""


class LoadableTransport(Transport, Protocol):
    async def load(self) -> None:
        """Import what the transport needs, at low priority. Raises any exception if that fails."""
        ...


class LateSdkTransport(Transport):
    name = "sdk"

    def __init__(self, first: Transport, later: LoadableTransport, idle_seconds: float = IDLE_SECONDS) -> None:
        self._first = first
        self._later = later
        self._idle_seconds = idle_seconds
        self._current = first
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None

    async def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        self._stop_timer()
        self._running += 1
        try:
            # A request stays with its transport, even if the other one is ready meanwhile.
            async with aclosing(self._current.events(body, betas)) as events:
                async for event in events:
                    yield event
        finally:
            self._running -= 1
        if not self._running and self._loading is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._begin_loading)

    async def renew(self) -> bool:
        return await self._current.renew()

    async def warm(self) -> None:
        await self._current.warm()

    async def aclose(self) -> None:
        self._stop_timer()
        if self._loading is not None:
            await cancel_and_wait([self._loading])
        await self._first.aclose()
        await self._later.aclose()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_loading(self) -> None:
        self._loading = start_task(self._load())

    async def _load(self) -> None:
        try:
            await self._later.load()
        except Exception:
            logging.getLogger("agentcli").warning(
                "The anthropic package cannot be used; requests continue without it.", exc_info=True
            )
            return
        self._current = self._later
        if not self._running:
            await self._first.aclose()
