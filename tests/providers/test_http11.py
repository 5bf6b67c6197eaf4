"""The HTTP client of the `wire` transport, against servers that answer with prepared bytes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController, cancel_and_wait, start_task
from agentcli.providers.base import FailureKind, TransportFailure
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import Endpoint, from_exception
from agentcli.providers.transports import http11, wire
from agentcli.providers.transports.http11 import (
    BrokenResponse,
    ConnectTimeout,
    HttpClient,
    HttpResponse,
    UnsendableRequest,
    reaches,
)
from agentcli.providers.transports.wire import WireTransport
from tests.support.own_loop import start_tasks_eagerly
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio


def plain(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines))
    return f"{head}\r\n\r\n".encode() + body


class Server:
    """Answers the requests of all connections with `answers`, one each. An empty answer closes the connection."""

    def __init__(self, answers: Sequence[bytes], farewell: bytes | None) -> None:
        self._answers = list(answers)
        self._farewell = farewell
        self.connections = 0
        self.requests: list[bytes] = []
        self.closed = asyncio.Event()
        """Set when a connection was closed by the client."""
        self.tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fixture: http11 server")
        self.tasks.add(task)
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self._answers.pop(0)
                writer.write(answer)
                if not answer or self._farewell is not None:
                    writer.write(self._farewell or b"")
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed.set()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    *answers: bytes, farewell: bytes | None = None, tls: ssl.SSLContext | None = None, path: str = ""
) -> AsyncIterator[tuple[Server, HttpClient]]:
    """`farewell`: sent after the first answer, before the server closes the connection."""
    served = Server(answers, farewell)
    server = await asyncio.start_server(served.connected, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    base = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    client = HttpClient(base + path, connect_seconds=5, write_seconds=5)
    try:
        yield served, client
    finally:
        await client.aclose()
        server.close()
        await cancel_and_wait(set(served.tasks))
        await server.wait_closed()


async def whole(response: HttpResponse) -> bytes:
    return b"".join([chunk async for chunk in response.aiter_bytes()])


async def posted(client: HttpClient) -> bytes:
    response = await client.send("POST", "/v1/messages", {}, b"{}")
    try:
        return await whole(response)
    finally:
        await response.aclose()


async def test_a_request_has_its_path_headers_and_body() -> None:
    async with serving(plain(b"yes", "X-A: 1", "x-a: 2"), path="/proxy") as (server, client):
        response = await client.send("POST", "/v1/messages", {"content-type": "application/json"}, b"{}")
        assert (response.status_code, await whole(response)) == (200, b"yes")
        assert response.headers == {"content-length": "3", "x-a": "1, 2"}
    (request,) = server.requests
    first, *lines, _empty, body = request.split(b"\r\n")
    assert (first, body) == (b"POST /proxy/v1/messages HTTP/1.1", b"{}")
    assert [line.split(b":")[0].lower() for line in lines] == [b"host", b"content-type", b"content-length"]


async def test_a_connection_is_used_again_after_a_complete_response() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"
    async with serving(chunked, plain(b"two")) as (server, client):
        assert [await posted(client), await posted(client)] == [b"one", b"two"]
        assert server.connections == 1


async def test_a_response_that_ends_after_the_client_was_closed_leaves_no_connection() -> None:
    async with serving(plain(b"one")) as (server, client):
        response = await client.send("POST", "/", {}, b"")
        await client.aclose()
        assert (await whole(response), client._unused) == (b"one", [])
        await server.closed.wait()


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(farewell: bytes) -> None:
    async with serving(plain(b"one"), plain(b"two"), farewell=farewell) as (server, client):
        assert await posted(client) == b"one"
        await asyncio.gather(*server.tasks)
        while not client._unused[0]._reader.has_news:
            await asyncio.sleep(0)
        assert (await posted(client), server.connections) == (b"two", 2)


async def test_a_farewell_that_the_event_loop_has_not_seen_yet_counts() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        client = HttpClient(f"http://127.0.0.1:{listener.getsockname()[1]}", connect_seconds=5, write_seconds=5)

        async def answer(body: bytes) -> socket.socket:
            connection, _address = await loop.sock_accept(listener)
            await loop.sock_recv(connection, 65536)
            await loop.sock_sendall(connection, plain(body))
            return connection

        first = asyncio.create_task(answer(b"one"))
        assert await posted(client) == b"one"
        (await first).close()
        second = asyncio.create_task(answer(b"two"))
        assert await posted(client) == b"two"
        (await second).close()
        await client.aclose()


async def test_a_connection_that_was_unused_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http11, "KEEP_SECONDS", 0)
    async with serving(plain(b"one"), plain(b"two")) as (server, client):
        assert [await posted(client), await posted(client)] == [b"one", b"two"]
        assert server.connections == 2


async def test_responses_before_the_final_one_are_skipped() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with serving(early + plain(b"one")) as (_server, client):
        assert await posted(client) == b"one"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        plain(b"x", "Content-Encoding: br"),
    ],
)
async def test_a_response_that_cannot_be_read_is_an_os_error(answer: bytes) -> None:
    async with serving(answer) as (_server, client):
        with pytest.raises(BrokenResponse) as raised:
            await posted(client)
    failure = from_exception(raised.value, Endpoint("here"))
    assert (failure.kind, failure.retryable) == (FailureKind.CONNECTION, True)


async def test_a_connection_that_takes_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_args: object, **_options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)
    with pytest.raises(ConnectTimeout) as raised:
        await posted(HttpClient("http://127.0.0.1:9", connect_seconds=0, write_seconds=1))
    assert from_exception(raised.value, Endpoint("here")).message == "No connection to here. Check the network."


async def test_a_host_that_refuses_at_all_its_addresses_is_reported_as_refusing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_rest: addresses)
        with pytest.raises(OSError) as raised:
            await posted(HttpClient(f"http://two.example:{port}", connect_seconds=5, write_seconds=5))
    assert "here refuses connections" in from_exception(raised.value, Endpoint("here")).message


@pytest.mark.parametrize("is_eager", [False, True])
async def test_the_next_address_is_tried_beside_one_that_does_not_answer(
    is_eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    if is_eager:
        start_tasks_eagerly(loop)
    usual = loop.sock_connect
    tried: list[tuple[str, int]] = []

    async def connect(connecting: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address)
        if address[0] == "127.0.0.2":
            await asyncio.Event().wait()
        await usual(connecting, address)

    monkeypatch.setattr(loop, "sock_connect", connect)
    monkeypatch.setattr(http11, "_ADDRESS_DELAY", 0.001)
    async with serving(plain(b"one")) as (server, client):
        port = client._port
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", port)) for n in (2, 1)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_rest: addresses)
        client._host = "two.example"
        assert await posted(client) == b"one"
        assert (tried, server.connections) == ([("127.0.0.2", port), ("127.0.0.1", port)], 1)


def test_addresses_are_tried_with_their_families_in_turn() -> None:
    found = [(family, socket.SOCK_STREAM, 6, "", family) for family in [socket.AF_INET6] * 2 + [socket.AF_INET] * 2]
    in_turn = [socket.AF_INET6, socket.AF_INET] * 2
    assert [info[0] for info in http11._alternate_families(found)] == in_turn


@pytest.mark.parametrize("host", ["a..example", f"{'a' * 80}.example"])
async def test_a_name_that_no_host_can_have_is_not_found(host: str) -> None:
    with pytest.raises(OSError) as raised:
        await posted(HttpClient(f"http://{host}", connect_seconds=5, write_seconds=5))
    assert "The host here was not found" in from_exception(raised.value, Endpoint("here")).message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("authorization", text) for text in ("two\nlines", "two\r\nlines", " space ", "schlüssel", "nul\0", "\x85")),
        *((name, "value") for name in ("", "two words", "with:colon", "line\nbreak", "ümlaut")),
    ],
)
async def test_a_header_that_cannot_be_sent_is_an_os_error_without_the_header(name: str, text: str) -> None:
    async with serving(plain(b"one")) as (server, client):
        with pytest.raises(UnsendableRequest) as raised:
            await client.send("POST", "/", {name: text}, b"{}")
    assert text not in str(raised.value)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert server.connections == 0


@pytest.mark.parametrize(
    ("url", "is_local", "environ", "expected"),
    [
        ("http://127.0.0.1:1", True, {"HTTP_PROXY": "http://proxy"}, True),
        ("https://api.example", False, {}, sys.platform == "linux"),
        ("https://api.example", False, {"https_proxy": ""}, sys.platform == "linux"),
        ("https://api.example", False, {"https_proxy": "http://proxy"}, False),
        ("https://api.example", False, {"ALL_PROXY": "http://proxy"}, False),
        ("https://name:word@api.example", False, {}, False),
        ("https://bücher.example", False, {}, False),
        ("http://127.0.0.1:1/a/b%20c", True, {}, True),
        ("http://127.0.0.1:1/a b", True, {}, False),
        ("http://127.0.0.1:1/a?key=1", True, {}, False),
        ("http://127.0.0.1:1/a#part", True, {}, False),
        ("ftp://api.example", False, {}, False),
    ],
)
def test_proxies_and_unusual_addresses_are_left_to_httpx2(
    url: str, is_local: bool, environ: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http11, "_authorities", lambda: ("file", None))
    monkeypatch.setattr("os.environ", environ)
    assert reaches(url, is_local=is_local) == expected


@each_row(
    ("url", "expected"),
    [
        ("https://api.example", b"api.example"),
        ("https://api.example:443", b"api.example"),
        ("http://api.example:443", b"api.example:443"),
        ("https://[::1]", b"[::1]"),
        ("http://[::1]:8080", b"[::1]:8080"),
    ],
)
def test_the_host_header_has_no_usual_port(url: str, expected: bytes) -> None:
    assert HttpClient(url, 1, 1)._host_header.encode() == expected


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl cannot make a certificate here")
    return key, cert


async def test_only_servers_of_a_known_authority_are_trusted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, cert = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    if not any(http11._authorities()):
        pytest.skip("no certificate authorities are installed here")
    async with serving(plain(b"one"), tls=tls) as (server, client):
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED") as raised:
            await posted(client)
        assert from_exception(raised.value, Endpoint("localhost")).kind is FailureKind.TLS
        assert server.requests == []
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    async with serving(plain(b"one"), tls=tls) as (_server, client):
        assert await posted(client) == b"one"


async def test_broken_certificate_authorities_fail_the_request_but_not_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    transport = WireTransport(Credentials("https://127.0.0.1:9", api_key="k"))
    await transport.warm()
    with pytest.raises(TransportFailure):
        await anext(transport.events({"model": "m", "messages": []}, (), AbortController().signal))
    await transport.aclose()


async def test_a_warm_up_that_ends_after_a_request_leaves_its_connection_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_requested, make = threading.Event(), wire._make_ready_client

    def make_late(base_url: str) -> HttpClient | wire.HttpxClient:
        is_requested.wait()
        return make(base_url)

    monkeypatch.setattr(wire, "_make_ready_client", make_late)
    async with serving(plain(b'event: ping\ndata: {"type": "ping"}\n\n')) as (server, client):
        transport = WireTransport(Credentials(f"http://127.0.0.1:{client._port}", api_key="k"))
        warming = start_task(transport.warm())
        try:
            assert [event async for event in transport.events({"model": "m"}, (), AbortController().signal)]
        finally:
            is_requested.set()
            await warming
        await transport.aclose()
        await asyncio.gather(*server.tasks)
    assert server.closed.is_set()
