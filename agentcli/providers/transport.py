"""What carries one request to a model and brings the raw events of its reply back.

A transport knows connections and how their failures are told to people. It knows nothing of retries, of the
conversation, or of what the events mean: that is `provider.py`, the same for all transports.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from agentcli.core.messages import Json
from agentcli.providers.base import Failure, FailureKind

ALIVE: Json = {}
"""Yielded when bytes came that made no event yet (comments, half of a large one): the connection is not stalled."""


class TransportFailure(Exception):
    """The only exception a transport raises for what the network or the server did."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Transport(Protocol):
    @property
    def name(self) -> str: ...

    def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        """Send one request and yield the API's events as they come, also pings and unknown ones.

        Ends without a word when the body ends, whether the reply was whole or not. An `error` event is raised
        as `TransportFailure`. Cancelling the reading task or closing the generator closes the connection.
        """
        ...

    async def renew(self) -> bool:
        """The server refused the credentials: get new ones. True if there is something new to try."""
        ...

    async def warm(self) -> None:
        """See `Provider.warm`."""
        ...

    async def aclose(self) -> None: ...


class NoTransport:
    """There is no way to a model, and `reason` says why; whoever asks one all the same is told so."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        raise TransportFailure(Failure(FailureKind.AUTHENTICATION, self._reason))
        yield ALIVE  # Never reached: it makes this a generator.

    async def renew(self) -> bool:
        return False

    async def warm(self) -> None:
        return None

    async def aclose(self) -> None:
        return None
