"""HTTP/1.1 requests with streamed responses, on asyncio and h11: for addresses that are reached without a proxy.

It buys a fast headless start: from the start of `agentcli -p` to its request took 255 ms with it and 350 ms with
httpx2 (processor time of the run 250 and 370 ms; the best of twelve runs in turn), because importing httpx2 takes
100 ms.
Unsupported features are left to httpx2: proxies, redirects, user names in addresses (see `reaches`).
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h11

from agentcli.core.aio import cancel_and_wait, start_task

KEEP_SECONDS = 5.0
"""Seconds that an unused connection is kept for the next request, as in httpx2."""
MAX_KEPT = 8
MAX_HEAD_BYTES = 100 * 1024
_CHUNK = 64 * 1024
_ADDRESS_DELAY = 0.25
"""Delay before the next address of a host is tried in parallel (RFC 8305)."""
_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""A result of `getaddrinfo`."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_PLAIN_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::0*[1-9][0-9]{0,4})?(?:/[A-Za-z0-9/._~%:@!$&'()*+,;=-]*)?",
    re.IGNORECASE,
)
"""An address without user name, query and fragment, in ASCII. Hosts and ports that cannot exist fail to connect."""


class ConnectTimeout(OSError):
    """No connection within the time limit."""


class ConnectError(OSError):
    """No connection; the cause has the reason."""


class UnsendableRequest(OSError):
    """A header has characters that HTTP does not allow. The message does not contain them: they could be part of the
    key."""


class BrokenResponse(OSError):
    """The response is not HTTP, or was cut off."""


def reaches(base_url: str, *, is_local: bool) -> bool:
    """Whether this client can be used for an address. `is_local`: no proxy is used for it."""
    if not _PLAIN_URL.fullmatch(base_url) or (base_url.startswith("https:") and not any(_authorities())):
        return False
    # Other systems have proxy settings besides the environment.
    return is_local or (
        sys.platform == "linux" and not any(value for name, value in os.environ.items() if name.lower() in _PROXIES)
    )


def make_context() -> ssl.SSLContext:
    """A TLS context with the certificate authorities of the system or of SSL_CERT_FILE; takes 25 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(*_authorities())
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authorities() -> tuple[str | None, str | None]:
    """The file and the folder with certificate authorities; None for each that does not exist."""
    paths = ssl.get_default_verify_paths()
    folder = paths.capath if paths.capath and _has_files(paths.capath) else None
    if os.environ.get(paths.openssl_cafile_env):
        return paths.cafile, None
    return (None, folder) if os.environ.get(paths.openssl_capath_env) else (paths.cafile, folder)


def _has_files(folder: str) -> bool:
    try:
        return any(Path(folder).iterdir())
    except OSError:
        return False


class HttpClient:
    """All requests go to the host of `base_url`. Raises `OSError` for every failure of the network."""

    def __init__(self, base_url: str, connect_seconds: float, write_seconds: float) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or ""
        self._is_secure = parts.scheme == "https"
        usual_port = 443 if self._is_secure else 80
        self._port = parts.port or usual_port
        self._host_header = parts.netloc if self._port != usual_port else _without_port(parts.netloc)
        self._prefix = parts.path
        self._connect_seconds = connect_seconds
        self._write_seconds = write_seconds
        self._context: ssl.SSLContext | None = None
        self._unused: list[_Connection] = []
        self._is_closed = False

    def prepare(self) -> None:
        """Read the certificate authorities ahead of the first request; for a thread."""
        if self._is_secure and self._context is None:
            self._context = make_context()

    async def send(self, method: str, path: str, headers: Mapping[str, str], content: bytes) -> HttpResponse:
        """Return the response when its headers have arrived. The caller reads its body and closes it."""
        request = self._request(method, path, headers, len(content))
        connection = self._take_kept() or await self._connect()
        try:
            await connection.send(request, content, self._write_seconds)
            return HttpResponse(self, connection, await connection.response())
        except BaseException:
            connection.abort()
            raise

    def _request(self, method: str, path: str, headers: Mapping[str, str], size: int) -> h11.Request:
        all_headers = [("host", self._host_header), *headers.items(), ("content-length", str(size))]
        with suppress(h11.LocalProtocolError, UnicodeError):
            return h11.Request(method=method, target=f"{self._prefix}{path}", headers=all_headers)
        raise UnsendableRequest("A header has characters that cannot be sent")

    async def aclose(self) -> None:
        self._is_closed = True
        unused, self._unused = self._unused, []
        for connection in unused:
            connection.abort()

    def keep(self, connection: _Connection) -> None:
        """Keep a connection whose last response is complete, for the next request."""
        # A response may end after the client was closed.
        if not self._is_closed and len(self._unused) < MAX_KEPT and connection.renew():
            self._unused.append(connection)
        else:
            connection.abort()

    def _take_kept(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._unused:
            connection = self._unused.pop()
            if connection.is_usable(now):
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        if self._is_secure and self._context is None:
            await asyncio.to_thread(self.prepare)
        loop = asyncio.get_running_loop()
        reader = _Reader()
        streams = asyncio.StreamReaderProtocol(reader)
        try:
            async with asyncio.timeout(self._connect_seconds):
                connected = await _connect_to_any_address(self._host, self._port)
                tls_name = self._host if self._is_secure else None
                transport, _protocol = await loop.create_connection(
                    lambda: streams, sock=connected, ssl=self._context, server_hostname=tls_name
                )
        except TimeoutError as error:
            raise ConnectTimeout(f"No connection within {self._connect_seconds:g} s") from error
        except OSError as error:
            raise ConnectError(str(error)) from error
        except ValueError as error:  # a name that no host can have
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from error
        return _Connection(reader, asyncio.StreamWriter(transport, streams, reader, loop))


class HttpResponse:
    def __init__(self, client: HttpClient, connection: _Connection, head: h11.Response) -> None:
        self._client = client
        self._connection: _Connection | None = connection
        self.status_code = head.status_code
        self.headers: dict[str, str] = {}
        for name, text in head.headers:
            key, item = name.decode("ascii"), text.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {item}" if key in self.headers else item

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        if (encoding := self.headers.get("content-encoding", "identity")) != "identity":
            raise BrokenResponse(f"The response is compressed ({encoding[:40]}), which was not asked for")
        while (connection := self._connection) is not None:
            chunk = await connection.body()
            if chunk is None:
                self._connection = None
                self._client.keep(connection)
            else:
                yield chunk

    def abort(self) -> None:
        """Close the connection before this returns; a task that reads the body gets an error."""
        if self._connection is not None:
            self._connection.shut_down()

    async def aclose(self) -> None:
        """Close the connection unless the body was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


class _Reader(asyncio.StreamReader):
    has_news = False
    """Whether data or the end of the connection arrived since this was last set to False."""

    def feed_data(self, data: Any) -> None:
        self.has_news = True
        super().feed_data(data)

    def feed_eof(self) -> None:
        self.has_news = True
        super().feed_eof()


class _Connection:
    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._unused_since = 0.0

    async def send(self, request: h11.Request, content: bytes, seconds: float) -> None:
        for event in (request, h11.Data(content), h11.EndOfMessage()):
            self._writer.writelines(self._protocol.send_with_data_passthrough(event) or ())
        # A server may refuse a request before it has read all of it: then its response has the reason.
        with suppress(ConnectionError):
            async with asyncio.timeout(seconds):
                await self._writer.drain()

    async def response(self) -> h11.Response:
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise BrokenResponse("The server closed the connection without a response")

    async def body(self) -> bytes | None:
        """The next piece of a body; None at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _next_event(self) -> Any:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                raise BrokenResponse(str(error)) from error
            if event is not h11.NEED_DATA:
                return event
            self._protocol.receive_data(await self._reader.read(_CHUNK))

    def renew(self) -> bool:
        """Prepare for the next request. False if the server wants to close the connection."""
        protocol = self._protocol
        if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
            return False
        protocol.start_next_cycle()
        self._reader.has_news = False
        self._unused_since = asyncio.get_running_loop().time()
        return True

    def is_usable(self, now: float) -> bool:
        # Data that a server sends unasked announces a close; it is not the next response.
        if self._writer.is_closing() or self._reader.has_news or now - self._unused_since >= KEEP_SECONDS:
            return False
        # The event loop may not have read it yet.
        arrived = select.poll()
        arrived.register(self._writer.get_extra_info("socket").fileno(), select.POLLIN)
        return not arrived.poll(0)

    def shut_down(self) -> None:
        """Notify the server now; `abort` does so in the next iteration of the event loop."""
        with suppress(OSError):
            self._writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self.abort()

    def abort(self) -> None:
        """Close at once, without waiting for unsent data or the TLS shutdown."""
        with suppress(RuntimeError):  # the event loop is closed
            self._writer.transport.abort()


async def _connect_to_any_address(host: str, port: int) -> socket.socket:
    """Connect to the first address of a host that answers. The next one is tried when the previous attempts have
    failed or taken `_ADDRESS_DELAY`.

    This is the `happy_eyeballs_delay` of asyncio, which fails on event loops that start tasks eagerly.
    """
    loop = asyncio.get_running_loop()
    addresses = _alternate_families(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    attempts: list[asyncio.Task[socket.socket]] = []
    connected: socket.socket | None = None
    try:
        while addresses or not all(attempt.done() for attempt in attempts):
            if addresses:
                attempts.append(start_task(_connect_to(addresses.pop(0))))
            pending = [attempt for attempt in attempts if not attempt.done()]
            if pending:
                delay = _ADDRESS_DELAY if addresses else None
                await asyncio.wait(pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            for attempt in attempts:
                if attempt.done() and attempt.exception() is None:
                    connected = attempt.result()
                    return connected
        errors = [error for attempt in attempts if (error := attempt.exception())]
        raise next((error for error in errors if isinstance(error, ConnectionRefusedError)), errors[0])
    finally:
        await cancel_and_wait(attempts)
        for attempt in attempts:
            if not attempt.cancelled() and attempt.exception() is None and attempt.result() is not connected:
                attempt.result().close()


def _alternate_families(found: Sequence[_AddressInfo]) -> list[_AddressInfo]:
    """Addresses with IPv6 and IPv4 in turn, so that a network without one of them costs a single delay."""

    def earlier_of_family(position: int) -> int:
        return sum(info[0] == found[position][0] for info in found[:position])

    return [found[position] for position in sorted(range(len(found)), key=earlier_of_family)]


async def _connect_to(info: _AddressInfo) -> socket.socket:
    family, kind, protocol, _name, address = info
    connecting = socket.socket(family, kind, protocol)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _without_port(netloc: str) -> str:
    return netloc.rpartition(":")[0] if not netloc.endswith("]") and ":" in netloc else netloc
