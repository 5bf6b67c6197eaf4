"""An abort closes the connection of a reply while it is being called, not when the event loop gets around to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from agentcli.core.abort import AbortController
from agentcli.providers.base import TransportFailure
from agentcli.providers.credentials import Credentials
from agentcli.providers.provider import Attempt
from agentcli.providers.retry import Timeouts
from agentcli.providers.transports.wire import WireTransport, closed_on_abort

BODY = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}
BEGINNING = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b'1b\r\nevent: ping\ndata: {"a": 1}\n\r\n'
    b"1\r\n\n\r\n"
)


async def stalled_reply(act: Callable[[Credentials, Awaitable[socket.socket]], Awaitable[None]]) -> None:
    """A server that begins a reply and never goes on, and its end of the connection."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def serve() -> socket.socket:
            connection, _address = await loop.sock_accept(listener)
            await loop.sock_recv(connection, 65536)
            await loop.sock_sendall(connection, BEGINNING)
            return connection

        serving = asyncio.create_task(serve())
        await act(Credentials(f"http://127.0.0.1:{listener.getsockname()[1]}", api_key="k"), serving)
        serving.result().close()


def test_the_connection_is_closed_when_abort_returns() -> None:
    async def act(credentials: Credentials, serving: Awaitable[socket.socket]) -> None:
        transport = WireTransport(credentials)
        controller = AbortController()
        attempt = Attempt(transport.events(BODY, (), controller.signal), Timeouts(), controller.signal)
        assert await attempt.next() == {"type": "ping", "a": 1}
        connection = await serving
        controller.abort()
        connection.setblocking(True)
        connection.settimeout(5)  # and the loop does not run meanwhile
        while connection.recv(65536):
            pass
        with pytest.raises(TransportFailure):
            await attempt.next()
        await attempt.close()
        await transport.aclose()

    asyncio.run(stalled_reply(act))


class Network:
    def __init__(self) -> None:
        self.closed = 0

    def get_extra_info(self, name: str) -> object:
        return self if name == "socket" else None

    def shutdown(self, how: int) -> None:
        self.closed += how == socket.SHUT_RDWR


@pytest.mark.parametrize(
    ("version", "is_read", "closed"), [("HTTP/2", False, 0), ("HTTP/1.1", True, 0), ("HTTP/1.1", False, 1)]
)
def test_only_a_connection_of_this_reply_alone_is_closed_while_it_is_read(
    version: str, is_read: bool, closed: int
) -> None:
    network, controller = Network(), AbortController()
    with closed_on_abort(
        SimpleNamespace(extensions={"network_stream": network}, http_version=version), controller.signal
    ):
        if not is_read:
            controller.abort()
    controller.abort()
    assert network.closed == closed
