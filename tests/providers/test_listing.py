"""Models that servers list: checked keys, servers on this machine, context windows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.providers.catalog import UNKNOWN_WINDOW, Catalog
from agentcli.providers.credentials import Credentials
from agentcli.providers.listing import ContextWindows, Listed, check_key, limits_in, list_models, look_up_at
from agentcli.providers.local_servers import PROGRAMS, LocalServer, Program, find_local_servers, speaks_messages
from tests.support.fakes import collect, result_of
from tests.support.listener import Listener
from tests.support.server import LoopbackServer
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio

KEY = "sk-ant-checked-0123456789"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "accepted"),
        (400, "accepted"),
        (401, "refused"),
        (403, "refused"),
        (302, "unreachable"),
        (429, "unreachable"),
        (500, "unreachable"),
        (529, "unreachable"),
    ],
)
async def test_each_answer_means_one_thing_and_costs_one_request(status: int, verdict: str) -> None:
    async with Listener(models=(status, b"{}")) as server:
        checked = await check_key(Credentials(server.url, api_key=KEY))
    assert checked.verdict == verdict
    assert KEY not in checked.text
    assert bool(checked.text) == (verdict != "accepted")
    ((method, path, headers),) = server.requests
    assert (method, path) == ("GET", "/v1/models?limit=1")
    assert headers["x-api-key"] == KEY
    assert "anthropic-version" in headers


async def test_without_a_model_list_the_token_count_endpoint_is_used() -> None:
    async with LoopbackServer() as server:
        assert (await check_key(Credentials(server.url, api_key=KEY))).verdict == "accepted"
        assert [request.path for request in server.requests] == ["/v1/models?limit=1", "/v1/messages/count_tokens"]
    async with Listener(messages__count_tokens=(401, b"{}")) as server:
        assert (await check_key(Credentials(server.url, api_key=KEY))).verdict == "refused"
    async with Listener() as server:
        assert (await check_key(Credentials(server.url, api_key=KEY))).verdict == "unclear"


async def test_a_missing_or_silent_server_leaves_the_result_open() -> None:
    async with Listener(models=None) as server:
        checked = await check_key(Credentials(server.url, api_key=KEY), seconds=0.3)
        assert checked.verdict == "unreachable"
        url = server.url
    checked = await check_key(Credentials(url, api_key=KEY))
    assert checked.verdict == "unreachable"
    assert "refuses connections" in checked.text


async def test_an_endless_model_list_is_not_read_completely() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    async with Listener() as server:
        server.raw = endless + b'{"data": [' + b" " * (5 * 1024 * 1024)
        # What comes after that would be waited for until the time is up, and there is none.
        listing = await list_models(Credentials(server.url, api_key=KEY), seconds=3600)
        assert (listing.status, listing.models, listing.problem) == (200, (), "")
        server.raw = endless
        assert (await check_key(Credentials(server.url, api_key=KEY), seconds=3600)).verdict == "accepted"


@pytest.mark.parametrize("body", [b'{"data":' + b"[" * 100_000, b"[]", b'{"data": 5}', b'{"data": [{"id"', b"\xff\xfe"])
async def test_an_invalid_model_list_is_ignored(body: bytes) -> None:
    async with Listener(models=(200, body)) as server:
        listing = await list_models(Credentials(server.url, api_key=KEY))
    assert listing.is_absent
    assert not listing.problem


PATIENT = 5.0
"""Seconds that only a failing test waits for."""


def models(*names: object) -> tuple[int, bytes]:
    return 200, json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


async def test_servers_that_list_models_are_found_in_order() -> None:
    async with (
        Listener(models=models("llama", "qwen")) as first,
        Listener(models=(404, b"{}")) as second,
        Listener(models=models("phi")) as third,
        Listener() as gone,
    ):
        programs = [Program(name, server.port) for name, server in zip("abc", (first, second, third), strict=True)]
        await gone.__aexit__()
        found = await find_local_servers([*programs, Program("d", gone.port)], PATIENT)
        assert found == (LocalServer("a", first.url, ("llama", "qwen")), LocalServer("c", third.url, ("phi",)))
        ((method, path, headers),) = first.requests
        assert (method, path) == ("GET", "/v1/models?limit=1000")
        assert not {"authorization", "x-api-key", "cookie"} & set(headers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": {}}',
        b'{"data": [1, null, {"id": 3}, {"id": ""}]}',
        b'{"data": []}',
        b"[" * 99999,
    ],
)
async def test_another_program_on_the_port_is_no_model_server(body: bytes) -> None:
    async with Listener(models=(200, body)) as server:
        assert await find_local_servers([Program("a", server.port)], PATIENT) == ()


async def test_rows_without_a_name_do_not_hide_the_other_models() -> None:
    rows = [{"id": "llama"}, {"name": "no id"}, {"id": None}, {"id": 3}, 5, None, ["id"], "id", {"id": "qwen"}]
    async with Listener(models=(200, json.dumps({"data": rows}).encode())) as server:
        assert (await list_models(Credentials(server.url))).models == ("llama", "qwen")
        (found,) = await find_local_servers([Program("a", server.port)], PATIENT)
    assert found.models == ("llama", "qwen")


@pytest.mark.parametrize("row", [{"id": None}, {"name": "x"}, 5])
async def test_a_list_of_rows_without_names_is_absent(row: object) -> None:
    async with Listener(models=(200, json.dumps({"data": [row]}).encode())) as server:
        assert (await list_models(Credentials(server.url))).is_absent


async def test_names_with_control_characters_or_excessive_length_are_left_out() -> None:
    hostile = ("\x1b[2Jwiped", "two\nlines", "right\u202eleft", "x" * 300, " edges ", "fine:7b")
    async with Listener(models=models(*hostile)) as server:
        (found,) = await find_local_servers([Program("a", server.port)], PATIENT)
    assert found.models == ("fine:7b",)


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 4000, b"HTTP/1.1"])
async def test_a_port_without_http_is_no_server(raw: bytes) -> None:
    async with Listener() as server:
        server.raw = raw
        assert await find_local_servers([Program("a", server.port)], PATIENT) == ()


async def test_several_silent_servers_cost_one_timeout_in_total() -> None:
    async with Listener(models=None) as one, Listener(models=None) as other:
        loop = asyncio.get_running_loop()
        began = loop.time()
        programs = [Program("a", one.port), Program("b", other.port)] * 20
        assert await find_local_servers(programs, 0.1) == ()
        assert loop.time() - began < 40 * 0.1


async def test_support_for_the_messages_api_is_probed_without_inference() -> None:
    async with Listener(messages=(400, b"{}")) as server:
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), PATIENT) is True
        assert server.requests[0][:2] == ("POST", "/v1/messages")
        del server.answers["/v1/messages"]
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), PATIENT) is False
        server.answers["/v1/messages"] = None
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), 0.05) is None


def test_only_the_default_ports_are_probed() -> None:
    assert {program.name: program.port for program in PROGRAMS} == {
        "Ollama": 11434,
        "LM Studio": 1234,
        "llama.cpp": 8080,
        "vLLM": 8000,
    }


MODEL = "local/tiny-7b"
ONE = "/v1/models/local%2Ftiny-7b"


def lister(entry: object = None, status: int = 200, **answers: tuple[int, bytes] | None) -> Listener:
    """A server that has this entry for the model."""
    server = Listener(**answers)
    if entry is not None:
        server.answers[ONE] = (status, entry.encode() if isinstance(entry, str) else json.dumps(entry).encode())
    return server


async def window_at(server: Listener, seconds: float = 2.0) -> Listed | None:
    return await look_up_at(Credentials(server.url, "key"), seconds)(MODEL)


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
    others = {"data": [{"id": "other", "context_length": 5_000}, "junk", entry]}
    async with lister(entry) as server, lister(models=(200, json.dumps(others).encode())) as listing:
        assert await window_at(server) == await window_at(listing) == Listed(8_192)
    assert [path for _method, path, _headers in server.requests] == [ONE]
    assert [path for _method, path, _headers in listing.requests] == [ONE, "/v1/models"]


@pytest.mark.parametrize(("status", "body"), [(200, "<html>"), (200, "[" * 5_000), (200, "null"), (401, "{}")])
async def test_an_unusable_response_gives_no_window(status: int, body: str) -> None:
    async with lister(body, status) as server:
        assert await window_at(server) is None


async def test_a_silent_missing_or_redirecting_server_gives_no_window() -> None:
    async with lister() as silent, lister({"context_length": 8_192}) as other, lister() as server:
        silent.answers[ONE] = None
        assert await window_at(silent, 0.05) is None
        server.raw = f"HTTP/1.1 302 X\r\nLocation: {other.url}{ONE}\r\nContent-Length: 0\r\n\r\n".encode()
        assert await window_at(server) is None
    assert other.requests == []
    assert await window_at(silent) is None


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
    """A Messages API that also lists one model."""

    async def _answer(self, request: Any, connection: Any) -> None:
        if request.path == ONE:
            await connection.send_json(200, {"id": MODEL, "context_length": 32_768})
        else:
            await super()._answer(request, connection)


def options(folder: Path, url: str, **rest: Any) -> Options:
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key"}
    return Options(cwd=folder, environ=environ, model=MODEL, sandbox="off", persist=False, **rest)


async def test_an_engine_learns_the_window_from_its_endpoint(tmp_path: Path) -> None:
    async with Endpoint("Hi.", "Again.") as server:
        async with build_engine(options(tmp_path, server.url)) as engine:
            assert engine.context.outlook().window == UNKNOWN_WINDOW
            assert not result_of(await collect(engine.submit("hello"))).is_error
            async with asyncio.timeout(20):
                while engine.context.outlook().window != 32_768:
                    await asyncio.sleep(0.005)
            await collect(engine.submit("more"))
        assert [request.path for request in server.requests].count(ONE) == 1


@pytest.mark.parametrize(
    "settings", [{"contextWindow": 50_000}, {"models": {MODEL: {"contextWindow": 50_000}}}], ids=["all", "one"]
)
async def test_a_configured_window_is_used_without_a_request(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with Endpoint("Hi.") as server:
        async with build_engine(options(tmp_path, server.url, settings=json.dumps(settings))) as engine:
            await collect(engine.submit("hello"))
            assert engine.context.outlook().window == 50_000
        assert ONE not in [request.path for request in server.requests]
