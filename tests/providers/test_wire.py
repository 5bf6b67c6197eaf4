"""Requests over HTTP: only to their own address, to servers of any kind, and closed at an abort."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.errors import UsageError
from agentcli.providers.base import Failed, FailureKind, ModelEvent, Request, TransportFailure
from agentcli.providers.credentials import Credentials, normal_base_url
from agentcli.providers.provider import Attempt, Timeouts
from agentcli.providers.transports.wire import MAX_ERROR_BYTES, WireTransport, close_on_abort, is_local_url
from tests.support.listener import Listener
from tests.support.scripts import provider_on
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio
KEY = "sk-ant-for-one-address-0123456789"
REFUSED = '{"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}'
BODY = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}
BEGINNING = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b'1b\r\nevent: ping\ndata: {"a": 1}\n\r\n'
    b"1\r\n\n\r\n"
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def ask(url: str) -> Failed:
    """The failure that a request to this address ends with."""
    provider = provider_on(WireTransport(Credentials(url, api_key=KEY)))
    request = Request("m", ({"role": "user", "content": "hi"},))
    events: list[ModelEvent] = [item async for item in provider.stream(request, AbortController().signal)]
    await provider.aclose()
    assert isinstance(events[-1], Failed)
    assert KEY not in repr(events)
    return events[-1]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirection_is_followed(status: int) -> None:
    async with Listener() as other, Listener() as server:
        # By another name of this machine, as another host would have one.
        place = f"http://localhost:{other.port}/v1/messages"
        server.raw = f"HTTP/1.1 {status} X\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
        last = await ask(server.url)
    assert (len(other.requests), len(server.requests)) == (0, 1)
    assert last.failure.kind is FailureKind.INVALID_REQUEST
    assert "another address" in last.failure.message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_requests_to_a_local_server_bypass_the_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Listener() as proxy, Listener() as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await ask(f"http://{host}:{server.port}")
    assert (len(proxy.requests), len(server.requests)) == (0, 1)


@each_row(
    ("url", "here"),
    [
        *((url, True) for url in ("http://127.0.0.1:8080", "http://LOCALHOST/x", "http://[::1]:1")),
        *((url, False) for url in ("http://10.0.0.1", "http://127.example.org", "https://localhost")),
        *((url, False) for url in ("http://localhost.example.org", "https://api.anthropic.com")),
    ],
)
def test_local_addresses_are_recognised(url: str, here: bool) -> None:
    assert is_local_url(url) == here


@each_row("url", ["http://[::1", "http://127.0.0.1:99999", "ftp://host", "host:80", "http://"])
def test_an_invalid_base_url_is_reported_in_one_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        normal_base_url(url)


async def test_an_endless_error_response_is_not_read_completely() -> None:
    """The body announces more than is ever sent, so reading all of it would never end."""
    async with Listener() as server:
        server.raw = b"HTTP/1.1 400 No\r\nContent-Length: 99999999999\r\n\r\nno " + b"x" * (2 * MAX_ERROR_BYTES)
        assert (await ask(server.url)).failure.kind is FailureKind.INVALID_REQUEST


@pytest.mark.parametrize(
    ("content_type", "body", "kind", "said"),
    [
        ("text/html; charset=utf-8", "<html><b>Welcome</b></html>", FailureKind.UNSUPPORTED, "ANTHROPIC_BASE_URL"),
        ("application/json", '{"type": "message", "content": []}', FailureKind.UNSUPPORTED, "without streaming"),
        ("application/json", REFUSED, FailureKind.AUTHENTICATION, "key"),
    ],
)
async def test_a_response_that_is_no_stream_is_not_retried(
    content_type: str, body: str, kind: FailureKind, said: str
) -> None:
    async with Listener() as server:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        server.raw = f"{head}{body}".encode()
        failure = (await ask(server.url)).failure
    assert (failure.kind, len(server.requests)) == (kind, 1)
    assert said in failure.message
    assert "<" not in failure.message


async def test_the_connection_is_closed_when_abort_returns() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def serve() -> socket.socket:
            connection, _address = await loop.sock_accept(listener)
            await loop.sock_recv(connection, 65536)
            await loop.sock_sendall(connection, BEGINNING)
            return connection

        serving = asyncio.create_task(serve())
        transport = WireTransport(Credentials(f"http://127.0.0.1:{listener.getsockname()[1]}", api_key=KEY))
        controller = AbortController()
        attempt = Attempt(transport.events(BODY, (), controller.signal), Timeouts(), controller.signal)
        assert await attempt.next() == {"type": "ping", "a": 1}
        with await serving as connection:
            controller.abort()
            connection.settimeout(5)  # and the loop does not run meanwhile
            while connection.recv(65536):
                pass
        with pytest.raises(TransportFailure):
            await attempt.next()
        await attempt.close()
        await transport.aclose()


class Network:
    def __init__(self) -> None:
        self.closed = 0

    def get_extra_info(self, name: str) -> object:
        return self if name == "socket" else None

    def shutdown(self, how: int) -> None:
        self.closed += how == socket.SHUT_RDWR


@each_row(("version", "is_read", "closed"), [("HTTP/2", False, 0), ("HTTP/1.1", True, 0), ("HTTP/1.1", False, 1)])
def test_only_a_connection_of_this_reply_alone_is_closed_while_it_is_read(
    version: str, is_read: bool, closed: int
) -> None:
    network, controller = Network(), AbortController()
    response = SimpleNamespace(extensions={"network_stream": network}, http_version=version)
    with close_on_abort(response, controller.signal):
        if not is_read:
            controller.abort()
    controller.abort()
    assert network.closed == closed
