"""Servers that do not answer like the Messages API, and the cooldown of an overloaded model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentcli.core.abort import AbortController
from agentcli.core.errors import UsageError
from agentcli.providers.base import Failed, FailureKind, FellBack, ModelEvent, Request, Waiting
from agentcli.providers.credentials import Credentials, normal_base_url
from agentcli.providers.transports.wire import WireTransport
from tests.support.scripts import fails, provider_for, provider_on
from tests.support.tables import each_row
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.anyio
REQUEST = Request("claude-sonnet-5-5", ({"role": "user", "content": [{"type": "text", "text": "hi"}]},))


@asynccontextmanager
async def answering(content_type: str, body: str) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that says the same to everybody; counts how often it was asked."""
    asked = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked[0] += 1
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body.encode())}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.parametrize(
    ("content_type", "body", "failure", "said"),
    [
        ("text/html; charset=utf-8", "<html><b>Welcome</b></html>", FailureKind.UNSUPPORTED, "ANTHROPIC_BASE_URL"),
        ("application/json", '{"type": "message", "content": []}', FailureKind.UNSUPPORTED, "without streaming"),
        (
            "application/json",
            '{"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}',
            FailureKind.AUTHENTICATION,
            "key",
        ),
    ],
)
async def test_a_response_that_is_no_stream_is_not_retried(
    content_type: str, body: str, failure: FailureKind, said: str
) -> None:
    async with answering(content_type, body) as (url, asked):
        provider = provider_on(WireTransport(Credentials(url)))
        events = [event async for event in provider.stream(REQUEST, AbortController().signal)]
        await provider.aclose()
    (last,) = events
    assert isinstance(last, Failed)
    assert last.failure.kind is failure
    assert said in last.failure.message
    assert "<" not in last.failure.message
    assert asked == [1]


@each_row("url", ["http://[::1", "http://127.0.0.1:99999", "ftp://host", "host:80", "http://"])
def test_an_invalid_base_url_is_reported_in_one_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        normal_base_url(url)


def test_an_overloaded_model_has_a_cooldown_after_a_fallback() -> None:
    async def main() -> list[list[str]]:
        provider = provider_for(
            fails(529, repeat=3), "a", "b", "back",
        )  # fmt: skip
        request = Request(REQUEST.model, REQUEST.messages, fallback_models=("claude-haiku-5-5",))
        seen = []
        for wait in (0, 100, 300):
            await asyncio.sleep(wait)
            events: list[ModelEvent] = [e async for e in provider.stream(request, AbortController().signal)]
            seen.append([type(e).__name__ for e in events if isinstance(e, Waiting | FellBack)])
        models = [body["model"] for body in provider._transport.requests]  # type: ignore[attr-defined]
        assert models == ["claude-sonnet-5-5"] * 3 + ["claude-haiku-5-5"] * 2 + ["claude-sonnet-5-5"]
        return seen

    seen = run_virtual(main)
    assert seen == [["Waiting", "Waiting", "FellBack"], [], []]
