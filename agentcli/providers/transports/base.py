"""Transports send one request to a model and yield the raw events of its reply.

A transport handles connections and turns their failures into user messages. Retries, the conversation and the meaning
of events are in `provider.py`, the same for all transports.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from agentcli.core.messages import Json
from agentcli.providers.base import Failure, FailureKind

ALIVE: Json = {}
"""Yielded for bytes that do not complete an event (comments, part of a large event): the connection is not stalled."""


class TransportFailure(Exception):
    """The only exception that a transport raises for network and server failures."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Transport(Protocol):
    """Subclasses without credentials and connections inherit the last three methods."""

    @property
    def name(self) -> str: ...

    def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        """Send one request and yield the API's events, including pings and unknown ones.

        Returns at the end of the body, whether the reply was complete or not. An `error` event is raised as
        `TransportFailure`. Cancelling the reading task or closing the generator closes the connection.
        """
        ...

    async def renew(self) -> bool:
        """Get new credentials after the server refused them. True if there is something new to try."""
        return False

    async def warm(self) -> None:
        """See `Provider.warm`."""
        return

    async def aclose(self) -> None:
        return None


class NoTransport(Transport):
    """Used when no model can be reached: every request fails with `reason`."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        raise TransportFailure(Failure(FailureKind.AUTHENTICATION, self._reason))
        yield ALIVE  # never reached, makes this a generator
