"""The HTTP client for MCP servers: limited bodies, large messages read in a thread, failures reported to the link.

Imports httpx2, so it is itself imported inside functions only.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from agentcli.mcp.limits import ServerLimits
from agentcli.mcp.link import ServerLink
from agentcli.mcp.oauth.bearer import NoToken
from agentcli.mcp.replies.answers import AnswerReader

_CONNECT_SECONDS = 10.0
_WRITE_SECONDS = 30.0
_NOTIFICATION_SECONDS = 10.0
"""Timeout of the response to a message that expects no answer: later messages wait for it."""
_ERROR_BODY = 1024 * 1024
_EXPIRY_DELAY = 0.05
"""Delay before the link ends, so that the refused request gets its response first."""
_SESSION_HEADER = "mcp-session-id"


class McpHttpClient(httpx2.AsyncClient):
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        auth: httpx2.Auth | None,
        reader: AnswerReader,
        link: ServerLink,
        limits: ServerLimits,
        *,
        answers_elsewhere: bool,
    ) -> None:
        """`answers_elsewhere`: answers come on another connection, so a failed POST would never be answered."""
        is_local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        super().__init__(
            headers=dict(headers),
            auth=auth,
            # Loading the certificate store takes 25 ms. An empty one refuses every certificate.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") else True,
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_WRITE_SECONDS),
            follow_redirects=False,
            trust_env=not is_local,
        )
        self._reader = reader
        self._link = link
        self._size_limits = limits
        self._answers_elsewhere = answers_elsewhere

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        is_post = request.method == "POST"
        seconds = _NOTIFICATION_SECONDS if is_post and not _is_request(request.content) else None
        try:
            async with asyncio.timeout(seconds):
                response = await super().send(request, **options)
        except TimeoutError:
            self._link.end(f"did not accept a message within {_NOTIFICATION_SECONDS:g} seconds")
            raise httpx2.ReadTimeout("no answer", request=request) from None
        except (httpx2.TransportError, OSError) as error:
            if is_post or self._answers_elsewhere:
                self._link.end(_no_connection(request.url.netloc.decode(errors="replace"), error))
            raise
        # Streamable HTTP works without the stream that a GET requests, and servers refuse it in many ways.
        if response.status_code >= 400 and (is_post or self._answers_elsewhere):
            self._note_failure(request, response)
        return self._limited(request, response)

    def _note_failure(self, request: httpx2.Request, response: httpx2.Response) -> None:
        status = self._link.http_status = response.status_code
        self._link.http_error = f"HTTP {status} {response.reason_phrase}".strip()
        challenge = response.headers.get("www-authenticate", "")
        # A missing scope refuses only this request.
        if status == 401 or (status == 403 and challenge and "insufficient_scope" not in challenge):
            self._link.end(f"sign-in required ({self._link.http_error})", "unauthorized")
        elif status == 404 and _SESSION_HEADER in request.headers:
            asyncio.get_running_loop().call_later(_EXPIRY_DELAY, self._link.end, "session expired", "expired")
        elif self._answers_elsewhere:
            self._link.end(self._link.http_error, "lost" if self._link.is_temporary else "refused")

    def _limited(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind = response.headers.get("content-type", "").lower()
        most = self._size_limits.message_bytes if response.status_code < 400 else _ERROR_BODY
        if kind.startswith("text/event-stream"):
            body = _events(response, self._reader, self._size_limits)
        else:
            body = _document(response, self._reader, most)
        dropped = ("content-length", "content-encoding", "transfer-encoding")
        copy = httpx2.Response(
            response.status_code,
            headers=[pair for pair in response.headers.multi_items() if pair[0].lower() not in dropped],
            stream=_Body(body, response),
            request=request,
            extensions=response.extensions,
            history=response.history,
        )
        copy.next_request = response.next_request
        return copy


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes], response: httpx2.Response) -> None:
        self._pieces = pieces
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


async def _document(response: httpx2.Response, reader: AnswerReader, most: int) -> AsyncIterator[bytes]:
    """A JSON body in one piece; a large result is replaced by its stub."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise httpx2.StreamError(f"the answer is larger than {most / 1e6:g} MB")
    yield await _reduced(b"".join(pieces), reader) if response.status_code < 300 else b"".join(pieces)


async def _events(response: httpx2.Response, reader: AnswerReader, limits: ServerLimits) -> AsyncIterator[bytes]:
    """The events of a stream; large results are replaced by their stubs."""
    rest = b""
    lines: list[bytes] = []
    size = 0
    pieces: list[bytes] = []
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > limits.message_bytes:
            raise httpx2.SSEError(f"an event is larger than {limits.message_bytes / 1e6:g} MB")
        if b"\n" not in chunk:
            pieces.append(chunk)
            continue
        first, *more, rest = chunk.split(b"\n")
        found = [b"".join([*pieces, first]), *more]
        pieces = [rest]
        for line in found:
            lines.append(line)
            if line in (b"", b"\r"):
                yield await _event(lines, reader, limits)
                lines = []
                size = len(rest)
    lines.append(b"".join(pieces))
    yield await _event(lines, reader, limits)


async def _event(lines: list[bytes], reader: AnswerReader, limits: ServerLimits) -> bytes:
    raw = b"\n".join(lines)
    if len(raw) <= limits.inline_bytes:
        return raw + b"\n"
    fields = [line.removesuffix(b"\r").partition(b":") for line in lines]
    data = b"\n".join(value.removeprefix(b" ") for name, _, value in fields if name == b"data")
    others = [name + b":" + value for name, _, value in fields if name in (b"id", b"event", b"retry")]
    return b"\n".join([*others, b"data: " + await _reduced(data, reader), b"", b""])


async def _reduced(data: bytes, reader: AnswerReader) -> bytes:
    if len(data) <= reader.inline_bytes:
        return data
    try:
        return json.dumps(await reader.parse(data)).encode()
    except ValueError as error:
        raise httpx2.StreamError(f"the answer cannot be read: {error}") from None


def _no_connection(host: str, error: BaseException) -> str:
    if isinstance(error, NoToken):
        return str(error)
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    text = " ".join(str(item) for item in causes)
    if any(isinstance(item, socket.gaierror) for item in causes) or "Name or service not known" in text:
        return f"the host {host} was not found; check the address and the network"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            f"the certificate of {host} cannot be verified; if it has its own certificate authority, set SSL_CERT_FILE"
        )
    if "WRONG_VERSION_NUMBER" in text:
        return f"{host} does not speak TLS; should the address begin with http://?"
    if isinstance(error, httpx2.ProxyError):
        return f"the proxy refused the connection to {host}; check HTTPS_PROXY"
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{host} did not accept a connection within {_CONNECT_SECONDS:g} seconds"
    if isinstance(error, httpx2.ConnectError):
        return f"{host} refuses connections; is the server running?"
    return f"the connection to {host} broke: {str(error) or type(error).__name__}"


def _is_request(content: bytes) -> bool:
    if len(content) > 64 * 1024:
        return True
    try:
        message = json.loads(content)
    except ValueError:
        return True
    return not isinstance(message, dict) or ("method" in message and "id" in message)
