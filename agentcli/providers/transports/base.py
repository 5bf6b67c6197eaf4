"""Transports send one request to a model and yield the raw events of its reply.

A transport handles connections and turns their failures into user messages. Retries, the conversation and the meaning
of events are in `provider.py`, the same for all transports.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Protocol

from agentcli.core.abort import AbortSignal
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

    def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        """Send one request and yield the API's events, including pings and unknown ones.

        Returns at the end of the body, whether the reply was complete or not. An `error` event is raised as
        `TransportFailure`. Cancelling the reading task or closing the generator closes the connection; `signal` may
        close it earlier (see `closed_on_abort`).
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

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        raise TransportFailure(Failure(FailureKind.AUTHENTICATION, self._reason))
        yield ALIVE  # never reached, makes this a generator


@contextlib.contextmanager
def closed_on_abort(response: Any, signal: AbortSignal) -> Iterator[None]:
    """Close the connection of a response of httpx2 or `http11.py` in the moment of an abort, while its body is read.

    The reading task is cancelled too, but it closes its connection when it runs next, which takes a millisecond or two
    in a busy event loop.
    """
    close = _closing(response)
    unhook = signal.on_abort(lambda _reason: close()) if close is not None else None
    try:
        yield
    finally:
        if unhook is not None:
            unhook()  # the connection may serve another request from now on


def _closing(response: Any) -> Callable[[], object] | None:
    """A function that closes the connection; None if it is unknown or shared with other requests."""
    if hasattr(response, "abort"):
        return response.abort  # type: ignore[no-any-return]
    stream = response.extensions.get("network_stream")
    if stream is None or not response.http_version.startswith("HTTP/1"):
        return None
    connection = stream.get_extra_info("socket")

    def shut_down() -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    return None if connection is None else shut_down
