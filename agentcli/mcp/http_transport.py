"""Transports for MCP servers over HTTP: the library's own, on a client of ours.

The client limits bodies, reads large messages in a thread, sends tokens, and reports failures to the link. Imports
httpx2, so it is itself imported inside functions only.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from agentcli.config.trust_effects import variables_in
from agentcli.core.files.access import parse_json
from agentcli.core.processes.own_programs import run_helper
from agentcli.mcp.answers import AnswerReader
from agentcli.mcp.auth_requests import UnreachableFailure, challenge_of
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import ServerLimits, ServerLink, run_outside_scopes
from agentcli.mcp.stdio import server_environment

if TYPE_CHECKING:
    from agentcli.mcp.authorization import ServerAuthorization

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
        self._max_bytes = limits.result_bytes
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
        return self._limit(request, response)

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

    def _limit(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind = response.headers.get("content-type", "").lower()
        most = self._max_bytes if response.status_code < 400 else _ERROR_BODY
        read = _events if kind.startswith("text/event-stream") else _document
        dropped = ("content-length", "content-encoding", "transfer-encoding")
        copy = httpx2.Response(
            response.status_code,
            headers=[pair for pair in response.headers.multi_items() if pair[0].lower() not in dropped],
            stream=_Body(read(response, self._reader, most), response),
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
    yield await _reduce(b"".join(pieces), reader) if response.status_code < 300 else b"".join(pieces)


async def _events(response: httpx2.Response, reader: AnswerReader, most: int) -> AsyncIterator[bytes]:
    """The events of a stream; large results are replaced by their stubs."""
    kind = {"content-type": response.headers["content-type"]}
    stream = httpx2.Response(200, headers=kind, content=_close_last_event(response), request=response.request)
    async for event in httpx2.EventSource(stream, max_event_size=most):
        data = (await _reduce(event.data.encode(), reader)).replace(b"\n", b"\ndata: ")
        retry = b"" if event.retry is None else b"retry: %d\n" % event.retry
        yield retry + b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.event.encode(), data)


async def _close_last_event(response: httpx2.Response) -> AsyncIterator[bytes]:
    """A stream with an empty line at its end, which some servers leave out after the last event. An event whose last
    line was cut off gets none, so that it is not taken for a whole one."""
    async for piece in response.aiter_bytes():
        yield piece
    yield b"\n"


async def _reduce(data: bytes, reader: AnswerReader) -> bytes:
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


_NAME = "Authorization"


class BearerAuth(httpx2.Auth):
    """Sends the token, renews it once when it is refused, and never waits for the user."""

    def __init__(self, authorization: ServerAuthorization) -> None:
        self._authorization = authorization

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if _NAME in request.headers:
            yield request
            return
        token = await _reach(self._authorization.token_for(str(request.url)), request)
        if token:
            request.headers[_NAME] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED and token:
            renewed = await _reach(self._authorization.renewed(token), request)
            if renewed:
                request.headers[_NAME] = f"Bearer {renewed}"
                response = yield request
        challenge = challenge_of(response)
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            self._authorization.refuse(challenge, token)
        if challenge.lacks_scope:
            self._authorization.note_missing_scope(challenge)


class NoToken(httpx2.TransportError):
    """The authorization server cannot be reached; the text says why."""


async def _reach(token: Coroutine[Any, Any, str], request: httpx2.Request) -> str:
    """The token. An unreachable authorization server is treated like an unreachable server: reconnecting may help."""
    try:
        return await run_outside_scopes(token)
    except UnreachableFailure as failure:
        raise NoToken(str(failure), request=request) from None


async def http_transport(
    config: ServerConfig,
    around: ServerSurroundings,
    auth: httpx2.Auth | None,
    reader: AnswerReader,
    link: ServerLink,
    limits: ServerLimits,
) -> Any:
    """The library's transport, not entered yet. Raises `ValueError`."""
    headers = dict(config.headers)
    if config.headers_helper:
        dirs = around.working_dirs or (around.cwd,)
        headers |= await helper_headers(
            config.headers_helper,
            environ=_helper_environment(config, around.environ, dirs),
            working_dirs=dirs,
            seconds=limits.helper_seconds,
        )

    client = McpHttpClient(config.url, headers, auth, reader, link, limits, answers_elsewhere=config.kind == "sse")

    if config.kind == "sse":
        from mcp.client.sse import sse_client

        return sse_client(config.url, httpx_client_factory=lambda *_ignored, **_too: client)
    return _streamable(config.url, client, limits)


async def helper_headers(
    command: str, *, environ: Mapping[str, str], working_dirs: Iterable[Path], seconds: float
) -> dict[str, str]:
    """Headers printed by a command of the configuration, such as a token that is valid for an hour.

    Raises `ValueError`, whose text never contains the output.
    """
    try:
        done = await run_helper(command, environ=environ, working_dirs=working_dirs, seconds=seconds)
    except TimeoutError:
        raise ValueError(f"headersHelper printed nothing within {seconds:g} seconds") from None
    except OSError as error:
        raise ValueError(f"headersHelper cannot be started: {error}") from None
    if done.code:
        raise ValueError(f"headersHelper failed (exit {done.code})")
    try:
        headers = parse_json(done.output)
    except ValueError:
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("headersHelper must print a JSON object of names and texts")
    return headers


def _helper_environment(config: ServerConfig, environ: Mapping[str, str], dirs: Sequence[Path]) -> Mapping[str, str]:
    """Environment of a headers helper. The user's own helper gets everything; one from a file in a repository gets no
    secrets except those that its text names as `${NAME}`, which the trust question shows."""
    if config.source not in ("project", "local"):
        return environ
    named = {name: environ[name] for name in variables_in(config.headers_helper) if name in environ}
    return server_environment(environ, named, dirs)


@asynccontextmanager
async def _streamable(url: str, client: McpHttpClient, limits: ServerLimits) -> AsyncGenerator[Any, None]:
    from mcp.client.streamable_http import streamable_http_client

    opening = streamable_http_client(url, http_client=client, max_sse_event_size=limits.result_bytes)
    async with client, opening as streams:
        yield streams
