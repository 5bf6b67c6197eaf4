"""Close the connection of a reply at once, without waiting for the task that reads it.

A cancelled task closes its connection when it runs next, which takes a millisecond or two in a busy event loop.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ClosesAtOnce(Protocol):
    def abort(self) -> None:
        """Close the connection now, even while another task reads from it."""


class Line:
    """The connection that a reader uses, if it can be closed from outside."""

    def __init__(self) -> None:
        self._close: Callable[[], object] | None = None

    def hang_up(self) -> None:
        """Close the connection, if there is one. Its reader cleans up the rest."""
        close, self._close = self._close, None
        if close is not None:
            with contextlib.suppress(OSError):
                close()

    @contextlib.contextmanager
    def reading(self, response: Any) -> Iterator[None]:
        self._close = _closing(response)
        try:
            yield
        finally:
            self._close = None  # the connection may serve another request from now on


line_of_reader: ContextVar[Line | None] = ContextVar("line_of_reader", default=None)
"""Set by the code that starts a task that reads a reply."""


@contextlib.contextmanager
def can_hang_up(response: Any) -> Iterator[None]:
    """Used by a transport while it reads the body of a response of httpx or `http11.py`."""
    line = line_of_reader.get()
    if line is None:
        yield
    else:
        with line.reading(response):
            yield


def _closing(response: Any) -> Callable[[], object] | None:
    """A function that closes the connection; None if it is unknown or shared with other requests."""
    if isinstance(response, ClosesAtOnce):
        return response.abort
    stream = response.extensions.get("network_stream")
    if stream is None or not response.http_version.startswith("HTTP/1"):
        return None
    connection = stream.get_extra_info("socket")
    return None if connection is None else lambda: connection.shutdown(socket.SHUT_RDWR)
