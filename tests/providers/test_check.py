"""Checking whether a key is accepted, over real HTTP."""

from __future__ import annotations

import pytest

from agentcli.providers.credentials import Credentials
from agentcli.providers.listing import check_key, list_models
from tests.support.listener import Listener
from tests.support.server import LoopbackServer

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
