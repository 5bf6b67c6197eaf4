"""The Messages API through the anthropic package: on Bedrock, Vertex and Foundry, whose credentials it knows, and on
request (`provider: "sdk"`) also the direct API.

The package takes over a second to import. It is imported in a thread, by `warm` or the first request. Its retries and
tracing are off. Requests use its `post`, which is `messages.create` without rewriting every message on every turn;
replies are read as raw events if the platform uses SSE (all but Bedrock).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from typing import Any, Literal

from agentcli.core.aio import AbortSignal, in_daemon_thread
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.providers.base import Failure, FailureKind, Transport, TransportFailure
from agentcli.providers.credentials import Credentials
from agentcli.providers.failures import (
    Endpoint,
    ErrorResponse,
    from_error_event,
    from_exception,
    from_response,
)
from agentcli.providers.transports.wire import (
    CONNECT_SECONDS,
    WRITE_SECONDS,
    check_stream,
    close_on_abort,
    decode_events,
    is_local_url,
    network_errors,
    ready_headers,
)

Platform = Literal["anthropic", "bedrock", "vertex", "foundry"]
_NEEDS = {"bedrock": "botocore", "vertex": "google.auth"}


class SdkTransport(Transport):
    name = "sdk"

    def __init__(self, platform: Platform, credentials: Credentials | None = None) -> None:
        """`credentials`: for the direct API (`anthropic`); platforms have their own."""
        self._platform: Platform = platform
        self._credentials = credentials
        self._client: Any = None
        self._loading = asyncio.Lock()

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        client = await self._ready_client()
        import anthropic

        host, source = str(client.base_url.host), f"the settings of {self._platform}"
        if self._credentials is not None:
            host, source = self._credentials.host, self._credentials.source
        where = Endpoint(host, source, str(body.get("model", "")))
        network: tuple[type[Exception], ...] = (anthropic.APIConnectionError, *network_errors())
        try:
            stream = await self._send(client, body, betas)
        except anthropic.APIStatusError as error:
            response = error.response
            answer = ErrorResponse(response.status_code, response.headers, response.text)
            raise TransportFailure(from_response(answer, where)) from error
        except network as error:
            raise TransportFailure(from_exception(error, where)) from error
        except anthropic.AnthropicError as error:
            text = f"Cannot use the credentials: {' '.join(str(error).split())}"
            raise TransportFailure(Failure(FailureKind.AUTHENTICATION, text, detail=type(error).__name__)) from error
        try:
            if self._platform == "bedrock":
                source_events = _bedrock_events(stream, where, network)
            else:
                await check_stream(stream.response, where)
                source_events = decode_events(stream.response.aiter_bytes(), where, network)
            with close_on_abort(stream.response, signal):
                async with contextlib.aclosing(source_events) as events:
                    async for event in events:
                        yield event
        finally:
            await stream.close()

    async def renew(self) -> bool:
        return self._credentials is not None and await self._credentials.renew()

    async def warm(self) -> None:
        # A failure here happens again in the first request, which reports it.
        with contextlib.suppress(TransportFailure):
            await self._ready_client()

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ready_client(self) -> Any:
        async with self._loading:
            if self._client is None:
                try:
                    self._client = await in_daemon_thread(_make_client, self._platform, self._credentials)
                except UsageError as error:
                    raise TransportFailure(Failure(FailureKind.INVALID_REQUEST, str(error))) from error
            return self._client

    async def _send(self, client: Any, body: Json, betas: tuple[str, ...]) -> Any:
        import anthropic

        headers: dict[str, Any] = {"User-Agent": "agentcli", "Accept": "text/event-stream"}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        if self._credentials is not None:
            own = await ready_headers(self._credentials)
            headers |= own or dict[str, Any](Authorization=anthropic.Omit())
        return await client.post(
            "/v1/messages",
            body=body,
            # Redirects are not followed: key and conversation are only for this address.
            options={"headers": headers, "follow_redirects": False},
            cast_to=object,
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )


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


def _make_client(platform: Platform, credentials: Credentials | None) -> Any:
    """Import the package and create its client; slow, so run it in a thread. Raises `UsageError`."""
    library = _NEEDS.get(platform)
    if library is not None and not _is_installed(library):
        raise UsageError(
            f"{platform.capitalize()} needs a package that is not installed. Run: pip install 'agentcli[{platform}]'"
        )
    import anthropic
    import anyio._backends._asyncio  # noqa: F401 -- else the first request imports it, in the loop: 25 ms
    import httpx2

    make: dict[str, Any] = {
        "anthropic": anthropic.AsyncAnthropic,
        "bedrock": anthropic.AsyncAnthropicBedrock,
        "vertex": anthropic.AsyncAnthropicVertex,
        "foundry": anthropic.AsyncAnthropicFoundry,
    }
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
    options: dict[str, Any] = {"max_retries": 0, "open_telemetry": False, "timeout": timeout}
    if credentials is not None:
        # Any key stops the package from looking for one; the real one is sent with each request. The client reads
        # proxies from the environment, except for a server on this machine.
        http = httpx2.AsyncClient(timeout=timeout, trust_env=not is_local_url(credentials.base_url))
        options |= {"api_key": "per-request", "base_url": credentials.base_url, "http_client": http}
    try:
        return make[platform](**options)
    except (anthropic.AnthropicError, ValueError) as error:
        raise UsageError(f"{platform.capitalize()} is not set up: {' '.join(str(error).split())}") from error


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False
