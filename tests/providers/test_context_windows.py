"""Context windows reported by the endpoint: over real HTTP, beside the first request, and never in its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.providers.catalog import UNKNOWN_WINDOW, Catalog
from agentcli.providers.credentials import Credentials
from agentcli.providers.listing import ContextWindows, Listed, limits_in, listing_at
from tests.support.fakes import collect, result_of
from tests.support.server import LoopbackServer
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio

MODEL = "local/tiny-7b"


@dataclass
class Lister:
    """A server that lists models, by path; what is not there is a 404."""

    answers: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    silent: bool = False
    seen: list[str] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.seen.append(head.split(" ")[1])
            if self.silent:
                await reader.read()
                return
            status, body = self.answers.get(self.seen[-1], (404, "{}"))
            extra = f"Location: {body}\r\n" if status == 302 else ""
            lines = f"HTTP/1.1 {status} X\r\n{extra}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
            writer.write(lines.encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listing(lister: Lister) -> AsyncGenerator[Lister, None]:
    server = await asyncio.start_server(lister.serve, "127.0.0.1", 0)
    lister.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield lister


ONE = "/v1/models/local%2Ftiny-7b"


@each_row(
    ("entry", "found"),
    [
        ({"max_input_tokens": 64_000, "max_tokens": 4_096}, Listed(64_000, 4_096)),
        ({"context_length": 32_768, "max_context_length": 4_096}, Listed(32_768)),
        ({"context_window": 16_384}, Listed(16_384)),
        ({"max_model_len": 8_192}, Listed(8_192)),
        ({"max_context_length": 8_192}, Listed(8_192)),
        ({"max_input_tokens": 0, "context_length": 9_000}, Listed(9_000)),
        ({"context_length": True}, None),
        ({"context_length": "8192"}, None),
        ({"context_length": 10**12}, None),
        ({"max_tokens": 4_096}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_a_window_is_read_as_servers_spell_it(entry: object, found: Listed | None) -> None:
    assert limits_in(entry) == found


async def test_the_model_is_requested_first_and_then_the_list() -> None:
    entry = {"id": MODEL, "context_length": 8_192}
    async with listing(Lister({ONE: (200, json.dumps(entry))})) as server:
        assert await listing_at(Credentials(server.url))(MODEL) == Listed(8_192)
        assert server.seen == [ONE]
    others = {"data": [{"id": "other", "context_length": 5_000}, "junk", entry]}
    async with listing(Lister({"/v1/models": (200, json.dumps(others))})) as server:
        assert await listing_at(Credentials(server.url))(MODEL) == Listed(8_192)
        assert server.seen == [ONE, "/v1/models"]


@pytest.mark.parametrize("answer", [(200, "<html>"), (200, "[" * 5_000), (200, "null"), (401, "{}"), (500, "{}")])
async def test_an_unusable_response_gives_no_window(answer: tuple[int, str]) -> None:
    async with listing(Lister({ONE: answer})) as server:
        assert await listing_at(Credentials(server.url))(MODEL) is None


async def test_a_silent_or_missing_server_is_given_up() -> None:
    async with listing(Lister(silent=True)) as server:
        assert await listing_at(Credentials(server.url), seconds=0.05)(MODEL) is None
    assert await listing_at(Credentials(server.url))(MODEL) is None


async def test_the_key_follows_no_redirection() -> None:
    async with (
        listing(Lister({"/": (200, '{"context_length": 8192}')})) as other,
        listing(Lister({ONE: (302, f"{other.url}/")})) as server,
    ):
        assert await listing_at(Credentials(server.url, "key"))(MODEL) is None
        assert other.seen == []


async def test_each_unknown_model_is_asked_for_once_and_known_or_set_ones_never() -> None:
    asked: list[str] = []

    async def said(model: str) -> Listed | None:
        asked.append(model)
        return Listed(8_192, 6_000)

    catalog = Catalog({"mine": {"contextWindow": 5_000}})
    windows = ContextWindows(catalog, said)
    for model in (MODEL, MODEL, "mine", "claude-sonnet-5-5"):
        windows.ask(model)
    await windows.settled()
    windows.ask(MODEL)
    await windows.aclose()
    assert asked == [MODEL]
    info = catalog.get(MODEL)
    assert (info.context_window, info.max_output, info.known, info.price) == (8_192, 4_096, False, None)
    assert catalog.get("mine").context_window == 5_000
    assert catalog.get("claude-sonnet-5-5").context_window == 1_000_000


class Endpoint(LoopbackServer):
    """A Messages API that also lists one model; the list waits until it is let go."""

    def __init__(self, *replies: Any, window: int) -> None:
        super().__init__(*replies)
        self.window = window
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def _answer(self, request: Any, connection: Any) -> None:
        if request.path == ONE:
            await self.let_go.wait()
            await connection.send_json(200, {"id": MODEL, "context_length": self.window})
            return
        await super()._answer(request, connection)


def options(folder: Path, url: str, **rest: Any) -> Options:
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key"}
    return Options(cwd=folder, environ=environ, model=MODEL, sandbox="off", persist=False, **rest)


async def window_known(engine: Any, window: int) -> None:
    async with asyncio.timeout(20):
        while engine.context.outlook().window != window:
            await asyncio.sleep(0.005)


async def test_an_engine_learns_the_window_from_its_endpoint(tmp_path: Path) -> None:
    async with Endpoint("Hi.", "Again.", window=32_768) as server:
        async with build_engine(options(tmp_path, server.url)) as engine:
            assert engine.context.outlook().window == UNKNOWN_WINDOW
            assert not result_of(await collect(engine.submit("hello"))).is_error
            await window_known(engine, 32_768)
            await collect(engine.submit("more"))
        assert [request.path for request in server.requests].count(ONE) == 1


async def test_a_silent_model_list_delays_no_request_and_is_cancelled_at_the_end(tmp_path: Path) -> None:
    async with Endpoint("Hi.", window=32_768) as server:
        server.let_go.clear()
        async with build_engine(options(tmp_path, server.url)) as engine:
            assert result_of(await collect(engine.submit("hello"))).text == "Hi."
            assert engine.context.outlook().window == UNKNOWN_WINDOW
        server.let_go.set()


@pytest.mark.parametrize(
    "settings", [{"contextWindow": 50_000}, {"models": {MODEL: {"contextWindow": 50_000}}}], ids=["all", "one"]
)
async def test_a_configured_window_is_used_without_a_request(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with Endpoint("Hi.", window=32_768) as server:
        async with build_engine(options(tmp_path, server.url, settings=json.dumps(settings))) as engine:
            await collect(engine.submit("hello"))
            assert engine.context.outlook().window == 50_000
        assert ONE not in [request.path for request in server.requests]
