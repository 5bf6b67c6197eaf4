"""A key and a conversation go only to their own address, whatever it answers."""

from __future__ import annotations

import pytest

from agentcli.core.abort import AbortController
from agentcli.providers.base import Failed, FailureKind, Request
from agentcli.providers.credentials import Credentials
from agentcli.providers.transports.wire import MAX_ERROR_BYTES, WireTransport, is_local_url
from tests.support.listener import Listener
from tests.support.scripts import provider_on
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio
KEY = "sk-ant-for-one-address-0123456789"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirection_is_followed(status: int) -> None:
    async with Listener() as other, Listener() as server:
        # By another name of this machine, as another host would have one.
        place = f"http://localhost:{other.port}/v1/messages"
        server.raw = f"HTTP/1.1 {status} X\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
        provider = provider_on(WireTransport(Credentials(server.url, api_key=KEY)))
        request = Request("m", ({"role": "user", "content": "hi"},))
        *_before, last = [item async for item in provider.stream(request, AbortController().signal)]
        await provider.aclose()
    assert other.requests == []
    assert len(server.requests) == 1
    assert isinstance(last, Failed)
    assert last.failure.kind is FailureKind.INVALID_REQUEST
    assert "another address" in last.failure.message
    assert KEY not in repr(last)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_requests_to_a_local_server_bypass_the_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with Listener() as proxy, Listener() as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        provider = provider_on(WireTransport(Credentials(f"http://{host}:{server.port}", api_key=KEY)))
        request = Request("m", ({"role": "user", "content": "hi"},))
        events = [item async for item in provider.stream(request, AbortController().signal)]
        await provider.aclose()
    assert isinstance(events[-1], Failed)
    assert proxy.requests == []
    assert len(server.requests) == 1


@each_row(
    ("url", "here"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://LOCALHOST/x", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://127.example.org", False),
        ("https://localhost", False),
        ("http://localhost.example.org", False),
        ("https://api.anthropic.com", False),
    ],
)
def test_local_addresses_are_recognised(url: str, here: bool) -> None:
    assert is_local_url(url) == here


async def test_an_endless_error_response_is_not_read_completely() -> None:
    """The body announces more than is ever sent, so reading all of it would never end."""
    async with Listener() as server:
        server.raw = b"HTTP/1.1 400 No\r\nContent-Length: 99999999999\r\n\r\nno " + b"x" * (2 * MAX_ERROR_BYTES)
        provider = provider_on(WireTransport(Credentials(server.url, api_key=KEY)))
        request = Request("m", ({"role": "user", "content": "hi"},))
        *_before, last = [item async for item in provider.stream(request, AbortController().signal)]
        await provider.aclose()
    assert isinstance(last, Failed)
    assert last.failure.kind is FailureKind.INVALID_REQUEST
