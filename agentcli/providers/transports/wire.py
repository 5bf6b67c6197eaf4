"""The Messages API over HTTP, without a package for it, which would take a second to import.

Connections are made by `http11.py`, or by httpx2 if a proxy is set. Either is imported by the first request or by
`warm`, never with this module.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentcli.core.aio import AbortSignal
from agentcli.core.errors import CredentialError
from agentcli.core.messages import Json
from agentcli.providers.base import ALIVE, Failure, FailureKind, Transport, TransportFailure
from agentcli.providers.body import BodyEncoder
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import (
    Endpoint,
    ErrorResponse,
    broken,
    from_error_event,
    from_exception,
    from_response,
    not_a_stream,
)
from agentcli.providers.transports.sse import EventDecoder, GarbageError, merge_deltas

if TYPE_CHECKING:
    import httpx2

    from agentcli.providers.transports.http11 import HttpClient, HttpResponse

API_VERSION = "2026-10-21"
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0
MAX_ERROR_BYTES = 256 * 1024


class WireTransport(Transport):
    name = "wire"

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._encoder = BodyEncoder()
        self._client: HttpClient | HttpxClient | None = None

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        where = Endpoint(self._credentials.host, self._credentials.source, str(body.get("model", "")))
        headers = await self._headers(betas)
        content = self._encoder.encode(body)
        client = self._ready_client()
        errors = network_errors()
        try:
            response = await client.send("POST", "/v1/messages", headers, content)
        except errors as error:
            raise TransportFailure(from_exception(error, where)) from error
        try:
            if response.status_code != 200:
                text = (await _read_beginning(response)).decode("utf-8", "replace")
                refusal = ErrorResponse(response.status_code, response.headers, text)
                raise TransportFailure(from_response(refusal, where))
            await check_stream(response, where)
            with close_on_abort(response, signal):
                async with aclosing(decode_events(response.aiter_bytes(), where, errors)) as source:
                    async for event in source:
                        yield event
        finally:
            await response.aclose()

    async def renew(self) -> bool:
        return await self._credentials.renew()

    async def warm(self) -> None:
        # A failure here, such as an invalid SSL_CERT_FILE, happens again in the first request, which reports it.
        with suppress(*network_errors()):
            client = await asyncio.to_thread(_make_ready_client, self._credentials.base_url)
            # A request may have made one meanwhile, whose connections only `aclose` closes.
            self._client = self._client or client

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _headers(self, betas: tuple[str, ...]) -> dict[str, str]:
        headers = {
            "anthropic-version": API_VERSION,
            "content-type": "application/json",
            "accept": "text/event-stream",
            # A compressed stream would arrive in the blocks of the compressor.
            "accept-encoding": "identity",
            "user-agent": "agentcli",
            **await ready_headers(self._credentials),
        }
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        return headers

    def _ready_client(self) -> HttpClient | HttpxClient:
        if self._client is None:
            self._client = make_stream_client(self._credentials.base_url)
        return self._client


def make_stream_client(base_url: str) -> HttpClient | HttpxClient:
    from agentcli.providers.transports.http11 import HttpClient, reaches

    if reaches(base_url, is_local=is_local_url(base_url)):
        return HttpClient(base_url, CONNECT_SECONDS, WRITE_SECONDS)
    return HttpxClient(base_url)


def _make_ready_client(base_url: str) -> HttpClient | HttpxClient:
    client = make_stream_client(base_url)
    client.prepare()
    return client


class HttpxClient:
    """Like `HttpClient`, with httpx2."""

    def __init__(self, base_url: str) -> None:
        import httpx2  # noqa: F401 - now, so that `network_errors` knows its exceptions

        self._base_url = base_url
        self._client: httpx2.AsyncClient | None = None

    def prepare(self) -> None:
        import ssl

        import httpx2

        if self._client is None:
            # Without a read timeout: the provider limits silence, and also counts pings. Loading the certificate store
            # takes 25 ms; the empty one refuses every certificate, in case a proxy uses https.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self._base_url.startswith("http://") else True
            timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
            proxies = not is_local_url(self._base_url)
            self._client = httpx2.AsyncClient(verify=verify, timeout=timeout, follow_redirects=False, trust_env=proxies)

    async def send(self, method: str, path: str, headers: Mapping[str, str], content: bytes) -> httpx2.Response:
        self.prepare()
        assert self._client is not None
        request = self._client.build_request(method, f"{self._base_url}{path}", content=content, headers=headers)
        return await self._client.send(request, stream=True)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


async def fetch(
    base_url: str, method: str, path: str, headers: Mapping[str, str], content: bytes, max_bytes: int
) -> tuple[int, bytes]:
    """Send one small request. Returns its status and the first bytes of the body. Raises `network_errors`."""

    # In a thread: imports and certificates may take 0.1 s, which would block the UI.
    client = await asyncio.to_thread(_make_ready_client, base_url)
    try:
        response = await client.send(method, path, headers, content)
        try:
            return response.status_code, await _read_beginning(response, max_bytes) if max_bytes else b""
        finally:
            await response.aclose()
    finally:
        await client.aclose()


def is_local_url(base_url: str) -> bool:
    """Whether the server is on this machine, so that no proxy is used, which would see the conversation."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    return parts.scheme == "http" and bool(re.fullmatch(r"localhost|::1|127(?:\.\d{1,3}){3}", host))


async def _read_beginning(response: HttpResponse | httpx2.Response, max_bytes: int = MAX_ERROR_BYTES) -> bytes:
    """The first bytes of a body, or what arrived of it before the connection broke."""
    text = bytearray()
    with suppress(*network_errors()):
        async for chunk in response.aiter_bytes():
            text += chunk
            if len(text) > max_bytes:
                break
    return bytes(text)


async def check_stream(response: HttpResponse | httpx2.Response, where: Endpoint) -> None:
    """Raise `TransportFailure` for a 200 that is not an event stream: a web page, a whole message, an error."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/html"):
        return
    try:
        body = json.loads(await _read_beginning(response))
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("type") == "error":
        raise TransportFailure(from_error_event(body, where))
    raise TransportFailure(not_a_stream(kind, where))


async def ready_headers(credentials: Credentials) -> dict[str, str]:
    """The credentials' headers; a failing key helper is an authentication failure."""
    try:
        return await credentials.headers()
    except CredentialError as error:
        raise TransportFailure(Failure(FailureKind.AUTHENTICATION, str(error))) from error


async def decode_events(
    chunks: AsyncIterator[bytes], where: Endpoint, errors: tuple[type[Exception], ...]
) -> AsyncGenerator[Json, None]:
    """The events in a response body. `errors` are the exceptions that reading may raise."""
    decoder = EventDecoder()

    def pass_on(events: list[Json]) -> Iterator[Json]:
        for event in events:
            if event.get("type") == "error":
                raise TransportFailure(from_error_event(event, where))
            yield event

    try:
        async for chunk in chunks:
            for event in pass_on(merge_deltas(decoder.feed(chunk)) or [ALIVE]):
                yield event
        for event in pass_on(decoder.finish()):
            yield event
    except GarbageError as error:
        raise TransportFailure(broken("the server sent something that is not an event", str(error))) from error
    except errors as error:
        raise TransportFailure(from_exception(error, where)) from error


def network_errors() -> tuple[type[Exception], ...]:
    """The exceptions that a request may raise."""
    if "httpx2" not in sys.modules:
        return (OSError,)
    import httpx2

    return (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError)


@contextmanager
def close_on_abort(response: Any, signal: AbortSignal) -> Iterator[None]:
    """Close the connection of a response of httpx2 or `http11.py` in the moment of an abort, while its body is read.

    The reading task is cancelled too, but it closes its connection when it runs next, which takes a millisecond or two
    in a busy event loop.
    """
    close = _find_close(response)
    unhook = signal.on_abort(lambda _reason: close()) if close is not None else None
    try:
        yield
    finally:
        if unhook is not None:
            unhook()  # the connection may serve another request from now on


def _find_close(response: Any) -> Callable[[], object] | None:
    """A function that closes the connection; None if it is unknown or shared with other requests."""
    if hasattr(response, "abort"):
        return response.abort  # type: ignore[no-any-return]
    stream = response.extensions.get("network_stream")
    if stream is None or not response.http_version.startswith("HTTP/1"):
        return None
    connection = stream.get_extra_info("socket")

    def shut_down() -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    return None if connection is None else shut_down
