"""Servers over streamable HTTP and SSE: calls, lost connections, sessions, signing in, limits."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.aio import AbortController, Aborted
from agentcli.mcp.configuration import ServerConfig, ServerSource
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.http_transport import _helper_environment, helper_headers
from agentcli.mcp.server import McpServer
from tests.support.mcp_http import McpHttpServer
from tests.support.mcp_started import started, until

pytestmark = pytest.mark.anyio
Started = AbstractAsyncContextManager[tuple[McpServer, list[str]]]


def over_http(web: McpHttpServer, limits: dict[str, Any] | None = None, **more: Any) -> Started:
    return started(ServerConfig("far", "http", url=f"{web.url}/mcp", **more), **(limits or {}))


def over_sse(web: McpHttpServer, limits: dict[str, Any] | None = None) -> Started:
    return started(ServerConfig("far", "sse", url=f"{web.url}/sse"), **(limits or {}))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("is_modern", [False, True])
async def test_a_server_over_http_answers_calls(streams: bool, is_modern: bool) -> None:
    async with (
        McpHttpServer(streams=streams, is_modern=is_modern) as web,
        over_http(web, headers={"x-key": "secret"}) as (server, _),
    ):
        assert server.state == "connected", server.error
        assert server.offers.protocol == ("2026-07-28" if is_modern else "2025-11-25")
        assert [tool.name for tool in server.offers.tools] == ["work"]
        assert (await server.call("work", {})).content[0].text == "done"
        assert {headers.get("x-key") for _, headers in web.received} == {"secret"}


@pytest.mark.parametrize(("reach", "is_modern"), [(over_http, False), (over_http, True), (over_sse, False)])
async def test_changed_lists_arrive(reach: Callable[[McpHttpServer], Started], is_modern: bool) -> None:
    async with McpHttpServer(is_modern=is_modern) as web, reach(web) as (server, _):
        await until(lambda: web._channels)
        web.change("work", "more")
        await until(lambda: len(server.offers.tools) == 2)


@pytest.mark.parametrize("reach", [over_http, over_sse])
async def test_large_results_are_read_in_both_ways(reach: Callable[[McpHttpServer], Started]) -> None:
    for streams in (False, True):
        async with McpHttpServer(streams=streams) as web, reach(web) as (server, _):
            web.result = {"content": [{"type": "text", "text": "ä\n" * 300_000}]}
            result = await server.call("work", {})
            assert result.content[0].text == "ä\n" * 300_000


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_an_event_stream_may_end_without_an_empty_line(end: bytes) -> None:
    async with McpHttpServer(streams=True) as web:
        web.event_end = end
        async with over_http(web) as (server, _):
            assert server.state == "connected", server.error
            for text in ("done", "large " * 100_000):
                web.result = {"content": [{"type": "text", "text": text}]}
                assert (await server.call("work", {})).content[0].text == text


async def test_an_event_that_was_cut_off_is_no_answer() -> None:
    async with McpHttpServer(streams=True) as web, over_http(web) as (server, _):
        web.event_end = b""
        with pytest.raises(McpFailure, match="SSE stream ended without a response"):
            await server.call("work", {})


async def test_an_answer_beyond_the_limit_fails_its_call_only() -> None:
    async with McpHttpServer() as web, over_http(web, {"result_bytes": 100_000}) as (server, _):
        web.result = {"content": [{"type": "text", "text": "x" * 200_000}]}
        with pytest.raises(McpFailure, match=r"larger than 0\.1 MB"):
            await server.call("work", {})
        assert server.state == "connected"


async def test_an_answer_that_is_not_json_and_an_http_error_fail_their_call_only() -> None:
    async with McpHttpServer() as web, over_http(web) as (server, _):
        web.body = b"<html>"
        with pytest.raises(McpFailure, match="far: Failed to parse JSON response"):
            await server.call("work", {})
        web.body = b""
        web.refusals["tools/call"] = (503, "x", "y")
        with pytest.raises(McpFailure, match="far: HTTP 503"):
            await server.call("work", {})
        web.refusals.clear()
        assert (await server.call("work", {})).content[0].text == "done"


@pytest.mark.parametrize("stage", ["initialize", "tools/list", "tools/call"])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_required_sign_in_is_reported_at_every_stage(stage: str, status: int) -> None:
    challenge = 'Bearer resource_metadata="https://example.com/x"'
    async with McpHttpServer() as web:
        web.refusals[stage] = (status, "www-authenticate", challenge)
        async with over_http(web, {"restarts": 3}) as (server, _):
            if stage == "tools/call":
                with pytest.raises(McpFailure):
                    await server.call("work", {})
            await until(lambda: server.state == "needs-auth")
            said = "Not signed in." if status == 401 else "sign-in required (HTTP 403"
            assert server.error.startswith(said)


async def test_a_call_in_a_session_that_the_server_forgot_is_repeated_in_a_new_one() -> None:
    async with McpHttpServer() as web, over_http(web, {"restarts": 2}) as (server, states):
        web.session = "session-2"
        assert (await server.call("work", {})).content[0].text == "done"
        assert states.count("connected") == 2
        assert [method for method, _ in web.received].count("tools/call") == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 500])
async def test_a_server_without_a_stream_of_its_own_works(status: int) -> None:
    async with McpHttpServer() as web:
        web.refusals["GET /mcp"] = (status, "www-authenticate", "Bearer")
        async with over_http(web, {"restarts": 2}) as (server, states):
            await until(lambda: "GET /mcp" in [method for method, _ in web.received])
            assert (await server.call("work", {})).content[0].text == "done"
            assert states == ["connecting", "connected"]


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (404, 1), (429, 3), (503, 3)])
@pytest.mark.parametrize("reach", [over_http, over_sse])
async def test_a_refusal_at_the_start_is_named_and_tried_again_only_if_it_may_pass(
    status: int, tries: int, reach: Callable[[McpHttpServer, dict[str, Any]], Started]
) -> None:
    async with McpHttpServer() as web:
        web.refusals |= dict.fromkeys(("initialize", "server/discover", "GET /sse"), (status, "x", "y"))
        async with reach(web, {"restarts": 2, "restart_seconds": 0.001}) as (server, states):
            await until(lambda: server._task is None)
            assert server.error == f"HTTP {status} Status"
            assert states == ["connecting", "failed"] * tries


@pytest.mark.parametrize("reach", [over_http, over_sse])
async def test_a_lost_connection_is_tried_again_until_the_server_is_back(
    reach: Callable[[McpHttpServer, dict[str, Any]], Started],
) -> None:
    quick = {"restarts": 50, "restart_seconds": 1e-9}
    async with McpHttpServer() as web, reach(web, quick) as (server, states):
        await web.vanish()
        if reach is over_http:
            with pytest.raises(McpFailure, match=r"far disconnected: .* refuses connections"):
                await server.call("work", {})
        await until(lambda: states.count("failed") >= 2)
        assert server.retry_seconds is not None or server.state == "connecting"
        await web.listen(web.port)
        await until(lambda: server.state == "connected")
        assert (await server.call("work", {})).content[0].text == "done"


async def test_tries_end_when_the_server_stays_away() -> None:
    config = ServerConfig("far", "http", url="http://127.0.0.1:9/mcp")
    async with started(config, restarts=2, restart_seconds=0.001) as (server, states):
        await until(lambda: server._task is None)
        assert states == ["connecting", "failed"] * 3
        assert "refuses connections; is the server running" in server.error


def test_the_reason_why_a_server_is_unreachable_is_in_plain_words() -> None:
    import httpx2

    from agentcli.mcp.http_transport import _no_connection

    def caused(error: Exception, cause: Exception) -> Exception:
        error.__cause__ = cause
        return error

    unknown = caused(httpx2.ConnectError("all attempts failed"), socket.gaierror(-2, "Name or service not known"))
    assert _no_connection("far.test", unknown).startswith("the host far.test was not found")
    untrusted = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert "SSL_CERT_FILE" in _no_connection("far.test", untrusted)
    not_tls = httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert "http://" in _no_connection("far.test", not_tls)
    assert "HTTPS_PROXY" in _no_connection("far.test", httpx2.ProxyError("407"))
    assert "within 10 seconds" in _no_connection("far.test", httpx2.ConnectTimeout(""))
    assert _no_connection("far.test", httpx2.ReadError("")) == "the connection to far.test broke: ReadError"


async def test_an_abort_ends_a_call_over_http_and_notifies_the_server() -> None:
    async with McpHttpServer() as web, over_http(web) as (server, _):
        web.silent.add("tools/call")
        controller = AbortController()
        calling = asyncio.ensure_future(server.call("work", {}, signal=controller.signal))
        await until(lambda: "tools/call" in [method for method, _ in web.received])
        controller.abort()
        with pytest.raises(Aborted):
            await calling
        await until(lambda: "notifications/cancelled" in [method for method, _ in web.received])


async def test_a_failed_post_over_sse_ends_the_connection_instead_of_hanging_the_call() -> None:
    async with McpHttpServer() as web, over_sse(web) as (server, _):
        web.refusals["tools/call"] = (500, "x", "y")
        with pytest.raises(McpFailure, match="far disconnected: HTTP 500"):
            await server.call("work", {})


async def test_headers_stay_at_home_when_a_server_redirects_elsewhere() -> None:
    async with McpHttpServer() as thief, McpHttpServer() as web:
        web.refusals["initialize"] = web.refusals["server/discover"] = (307, "location", f"{thief.url}/mcp")
        async with over_http(web, headers={"authorization": "Bearer secret"}) as (server, _):
            assert server.state == "failed"
            assert "not followed" in server.error
        assert thief.received == []


@pytest.mark.parametrize(("source", "seen"), [("user", "s1 s2"), ("project", " s2")])
async def test_a_helper_of_a_repository_gets_only_the_secrets_that_it_names(source: ServerSource, seen: str) -> None:
    command = 'echo "{\\"x-seen\\": \\"$(printenv API_KEY) ${OTHER_KEY}\\"}"'
    config = ServerConfig("far", "http", source, url="http://127.0.0.1:9/", headers_helper=command)
    environ = {"PATH": os.defpath, "API_KEY": "s1", "OTHER_KEY": "s2"}
    variables = _helper_environment(config, environ, [])
    found = await helper_headers(command, environ=variables, working_dirs=[], seconds=20)
    assert found == {"x-seen": seen}


async def test_a_helper_leaves_nothing_in_the_background(tmp_path: Path) -> None:
    command = f"sleep 600 >/dev/null & echo $! > {tmp_path}/pid; echo '{{}}'"
    assert await helper_headers(command, environ={"PATH": os.defpath}, working_dirs=[], seconds=20) == {}
    child = int((tmp_path / "pid").read_text())
    await until(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_a_helper_prints_further_headers() -> None:
    async with McpHttpServer() as web, over_http(web, headers_helper='echo \'{"x-token": "abc"}\'') as (server, _):
        assert server.state == "connected", server.error
        assert web.received[0][1]["x-token"] == "abc"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "headersHelper failed (exit 3)"),
        ("echo secret", "headersHelper must print a JSON object of names and texts"),
        ("sleep 100", "headersHelper printed nothing within 0.2 seconds"),
    ],
)
async def test_a_helper_that_fails_fails_the_server_without_its_output(command: str, reason: str) -> None:
    async with (
        McpHttpServer() as web,
        over_http(web, {"helper_seconds": 0.2}, headers_helper=command) as (server, _),
    ):
        assert (server.state, server.error) == ("failed", reason)
