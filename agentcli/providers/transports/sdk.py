"""The Messages API through the anthropic package: for Bedrock, Vertex and Foundry, and for interactive sessions.

An interactive session sends its first requests with `wire.py` and later ones with the package: importing it takes over
a second of processor time and 45 MB, which the first answer would have to wait for, while a session that stays open
gets the package's own treatment of connections, proxies and platforms. So the package is imported at low priority,
once the session has been idle for some seconds after a reply (`SwitchingTransport`). Both send the same bytes: the
prompt cache is not affected.

The package is loaded in a thread, by `warm`, `load` or the first request. Its retries and tracing are off. Requests
use its `post`, which is `messages.create` without rewriting every message on every turn; replies are read as raw events
if the platform uses SSE (all but Bedrock).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from importlib.util import find_spec
from typing import Any, Literal

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, in_daemon_thread, start_task
from agentcli.core.errors import UsageError
from agentcli.core.ids import Clock, SystemClock
from agentcli.core.messages import Json
from agentcli.providers.base import Failure, FailureKind
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import (
    Endpoint,
    ErrorResponse,
    from_error_event,
    from_exception,
    from_response,
    header_names,
)
from agentcli.providers.requests.encode import BodyEncoder, request_content
from agentcli.providers.transports import wire
from agentcli.providers.transports.base import Transport, TransportFailure, closed_on_abort
from agentcli.providers.transports.wire import (
    CONNECT_SECONDS,
    WRITE_SECONDS,
    check_stream,
    decoded,
    is_local_url,
    ready_headers,
)

Platform = Literal["anthropic", "bedrock", "vertex", "foundry"]
BACKGROUND_NICENESS = 10
IDLE_SECONDS = 10.0
"""Time without a request after a reply until the package is imported."""
_NEEDS = {"bedrock": "botocore", "vertex": "google.auth"}


class SdkTransport(Transport):
    name = "sdk"

    def __init__(
        self,
        credentials: Credentials,
        platform: Platform = "anthropic",
        clock: Clock | None = None,
        encoder: BodyEncoder | None = None,
    ) -> None:
        self._credentials = credentials
        self._platform = platform
        self._clock = clock or SystemClock()
        self._encoder = encoder or BodyEncoder()
        self._client: Any = None
        self._loading = asyncio.Lock()

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        client = await self._ready_client()
        import anthropic

        where = Endpoint(self._host(client), self._source(), str(body.get("model", "")))
        network = wire.network_errors()
        try:
            stream = await self._send(client, body, betas)
        except anthropic.APIStatusError as error:
            raise TransportFailure(self._explain_refusal(error, where)) from error
        except anthropic.APIConnectionError as error:
            raise TransportFailure(from_exception(error, where)) from error
        except network as error:
            raise TransportFailure(from_exception(error, where)) from error
        except anthropic.AnthropicError as error:
            raise TransportFailure(_unusable(error)) from error
        try:
            if self._platform == "bedrock":
                source = _bedrock_events(stream, where, network)
            else:
                await check_stream(stream.response, where)
                source = decoded(stream.response.aiter_bytes(), where, network)
            with closed_on_abort(stream.response, signal):
                async with contextlib.aclosing(source) as events:
                    async for event in events:
                        yield event
        finally:
            await stream.close()

    async def renew(self) -> bool:
        return await self._credentials.renew()

    async def warm(self) -> None:
        # A failure here happens again in the first request, which reports it.
        with contextlib.suppress(TransportFailure):
            await self._ready_client()

    async def load(self) -> None:
        """Like `warm`, at low priority. Raises `TransportFailure`, and any exception of a broken installation."""
        await self._ready_client(in_background=True)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ready_client(self, *, in_background: bool = False) -> Any:
        def make() -> Any:
            if in_background:
                lower_priority()
            return make_client(self._platform, self._credentials.base_url)

        async with self._loading:
            if self._client is None:
                try:
                    self._client = await in_daemon_thread(make)
                except UsageError as error:
                    raise TransportFailure(Failure(FailureKind.INVALID_REQUEST, str(error))) from error
            return self._client

    async def _send(self, client: Any, body: Json, betas: tuple[str, ...]) -> Any:
        import anthropic

        headers: dict[str, Any] = {"User-Agent": "agentcli", "Accept": "text/event-stream"}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        payload: dict[str, Any] = {"body": body}
        if self._platform == "anthropic":
            own = await ready_headers(self._credentials)
            headers |= own
            if not own:
                headers["Authorization"] = anthropic.Omit()
            headers["Content-Type"] = "application/json"
            content, more = request_content(self._encoder.pieces(body))
            headers |= more
            payload = {"content": content}
        return await client.post(
            "/v1/messages",
            **payload,
            # Redirects are not followed: key and conversation are only for this address.
            options={"headers": headers, "follow_redirects": False},
            cast_to=object,
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )

    def _explain_refusal(self, error: Any, where: Endpoint) -> Failure:
        response = error.response
        answer = ErrorResponse(
            response.status_code, header_names(response.headers.items()), response.text, self._clock.timestamp()
        )
        return from_response(answer, where)

    def _host(self, client: Any) -> str:
        return self._credentials.host if self._platform == "anthropic" else str(client.base_url.host)

    def _source(self) -> str:
        return self._credentials.source if self._platform == "anthropic" else f"the settings of {self._platform}"


class SwitchingTransport(Transport):
    """Sends requests with `first`, and with `later` once that was loaded in an idle moment."""

    name = "sdk"

    def __init__(self, first: Transport, later: SdkTransport, idle_seconds: float = IDLE_SECONDS) -> None:
        self._first = first
        self._later = later
        self._idle_seconds = idle_seconds
        self._current = first
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        self._stop_timer()
        self._running += 1
        try:
            # A request stays with its transport, even if the other one is ready meanwhile.
            async with contextlib.aclosing(self._current.events(body, betas, signal)) as events:
                async for event in events:
                    yield event
        finally:
            self._running -= 1
        if not self._running and self._loading is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._begin_loading)

    async def renew(self) -> bool:
        return await self._current.renew()

    async def warm(self) -> None:
        await self._current.warm()

    async def aclose(self) -> None:
        self._stop_timer()
        if self._loading is not None:
            await cancel_and_wait([self._loading])
        await self._first.aclose()
        await self._later.aclose()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_loading(self) -> None:
        self._loading = start_task(self._load())

    async def _load(self) -> None:
        try:
            await self._later.load()
        except Exception:
            logging.getLogger("agentcli").warning(
                "The anthropic package cannot be used; requests continue without it.", exc_info=True
            )
            return
        self._current = self._later
        if not self._running:
            await self._first.aclose()


async def _bedrock_events(
    stream: Any, where: Endpoint, network: tuple[type[Exception], ...]
) -> AsyncGenerator[Json, None]:
    """Bedrock has its own event framing, which the package decodes (it drops the pings)."""
    import anthropic

    try:
        async for event in stream:
            yield event
    except anthropic.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        raise TransportFailure(from_error_event(body, where)) from error
    except network as error:
        raise TransportFailure(from_exception(error, where)) from error


def make_client(platform: Platform, base_url: str) -> Any:
    """Import the package and create its client; slow, so run it in a thread. Raises `UsageError`."""
    library = _NEEDS.get(platform)
    if library is not None and not _is_installed(library):
        raise UsageError(
            f"{platform.capitalize()} needs a package that is not installed. Run: pip install 'agentcli[{platform}]'"
        )
    import anthropic
    import anyio._backends._asyncio  # noqa: F401 -- else the first request imports it, in the loop: 25 ms
    import httpx2

    common: dict[str, Any] = {
        "max_retries": 0,
        "open_telemetry": False,
        "timeout": httpx2.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
    }
    try:
        match platform:
            case "bedrock":
                return anthropic.AsyncAnthropicBedrock(**common)
            case "vertex":
                return anthropic.AsyncAnthropicVertex(**common)
            case "foundry":
                return anthropic.AsyncAnthropicFoundry(**common)
        # The package's default client always reads proxies from the environment.
        own = is_local_url(base_url)
        http = wire.make_client(base_url) if own else anthropic.DefaultAsyncHttpxClient(timeout=common["timeout"])
        http.event_hooks = {"response": [_limit_error_body]}
        common["http_client"] = http
        # Any key here stops the package from looking up credentials; the real one is sent with each request.
        return anthropic.AsyncAnthropic(api_key="per-request", base_url=base_url, **common)
    except (anthropic.AnthropicError, ValueError) as error:
        raise UsageError(f"{platform.capitalize()} is not set up: {' '.join(str(error).split())}") from error


async def _limit_error_body(response: Any) -> None:
    """A hook that limits the size of an error response, which the package reads completely."""
    import httpx2

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, whole: Any) -> None:
            self._whole = whole

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = wire.MAX_ERROR_BYTES
            async for chunk in self._whole:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await self._whole.aclose()

    if response.status_code >= 400:
        response.stream = BoundedStream(response.stream)


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def _unusable(error: Exception) -> Failure:
    said = " ".join(str(error).split())
    return Failure(FailureKind.AUTHENTICATION, f"Cannot use the credentials: {said}", detail=type(error).__name__)


def lower_priority() -> None:
    """Let other threads run before this one, on systems with thread priorities."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICENESS)
