"""Tokens after a sign-in: where they are sent, when they are renewed, and how they end."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from dataclasses import replace

import httpx2
import pytest

from agentcli.core.aio import cancel_and_wait
from agentcli.mcp.auth_requests import flow_provider
from agentcli.mcp.authorization import ServerAuthorization, address_of
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.server import McpServer
from tests.mcp.oauth.signing_in import SignInBench, connect, on_bench, settled, sign_in
from tests.support.authorization_server import ProtectedServer

pytestmark = pytest.mark.anyio


def stored(bench: SignInBench) -> dict[str, str]:
    """The one stored grant."""
    ((_name, entry),) = json.loads((bench.state_dir / "mcp-tokens.json").read_text())["keys"].items()
    found: dict[str, str] = json.loads(entry["key"])
    return found


def refreshes(bench: SignInBench) -> int:
    return sum(form["grant_type"] == "refresh_token" for form in bench.authorization.token_requests)


@on_bench
async def test_a_new_process_uses_the_stored_tokens(bench: SignInBench) -> None:
    await bench.connected()
    later = bench.client()
    await connect(later)
    assert later.state == "connected", later.error
    assert len(bench.authorization.authorizations) == 1


# ---------------------------------------------------------------------------------------------------- where to


@on_bench
async def test_another_name_or_another_address_has_no_token(bench: SignInBench) -> None:
    await bench.connected()
    around = ServerSurroundings(bench.folder, state_dir=bench.state_dir)
    here = ServerConfig("files", "http", url=bench.protected.endpoint)
    async with ProtectedServer(bench.authorization) as other:
        for config in (
            replace(here, name="other"),
            replace(here, url=other.endpoint),
            replace(here, url=f"{bench.protected.url}/other"),
        ):
            assert await ServerAuthorization(config, around).token_for(config.url) == ""
        assert await ServerAuthorization(here, around).token_for(here.url) == stored(bench)["access_token"]
        server = McpServer(replace(here, url=other.endpoint), around, ServerRequests())
        await connect(server)
        assert server.state == "needs-auth"
        assert set(other.tokens) == {""}


@on_bench
async def test_a_request_to_another_origin_carries_no_token(bench: SignInBench) -> None:
    server = await bench.connected()
    assert server._authorization is not None
    auth = server._authorization.begin()
    port = bench.protected.port
    for url in (f"http://127.0.0.1:{port + 1}/mcp", f"https://127.0.0.1:{port}/mcp", f"http://localhost:{port}/mcp"):
        request = httpx2.Request("POST", url)
        await anext(auth.async_auth_flow(request))
        assert "authorization" not in request.headers


@on_bench
async def test_requests_do_not_wait_for_one_another_as_they_do_in_the_library(bench: SignInBench) -> None:
    """Why tokens are not sent by its `OAuthClientProvider`: a slow call would hold up all others, and its own end."""
    server = await bench.connected()
    assert server._authorization is not None
    theirs = flow_provider(bench.protected.endpoint, "http://127.0.0.1/callback", None)
    for auth, waits in ((server._authorization.begin(), False), (theirs, True)):
        flows = [auth.async_auth_flow(httpx2.Request("POST", bench.protected.endpoint)) for _ in range(2)]
        await anext(flows[0])
        second = asyncio.ensure_future(anext(flows[1]))
        done, _waiting = await asyncio.wait({second}, timeout=0.05)
        assert (not done) == waits
        await cancel_and_wait([second])
        for flow in flows:
            await flow.aclose()


@on_bench
async def test_a_redirect_to_another_port_carries_no_token(bench: SignInBench) -> None:
    server = await bench.connected()
    async with ProtectedServer(bench.authorization) as other:
        bench.protected.redirects_to = other.endpoint
        await connect(server)
        assert server.state == "failed"
        assert bench.protected.tokens[-1] != ""
        assert other.requests == []


@on_bench
async def test_a_sign_in_of_another_process_is_used_and_ends_the_need_for_one(bench: SignInBench) -> None:
    server = bench.client()
    await connect(server)
    assert server.state == "needs-auth"
    await bench.connected()
    await connect(server)
    assert server.state == "connected"
    bench.protected.redirects_to = "https://example.com/"
    await connect(server)
    assert server.state == "failed"


# ---------------------------------------------------------------------------------------------------- renewal


@on_bench
async def test_an_expired_token_is_renewed_before_it_is_sent(bench: SignInBench) -> None:
    bench.authorization.expires_in = 0
    server = await bench.connected()
    used = [token for token in bench.protected.tokens if token]
    assert len(set(used)) == len(used)
    assert refreshes(bench) == len(used)
    form = bench.authorization.token_requests[-1]
    assert form["resource"] == bench.protected.endpoint
    assert (await server.call("read", {})).content[0].text == "done: read"


@on_bench
async def test_a_token_that_the_server_refuses_is_renewed_once(bench: SignInBench) -> None:
    server = await bench.connected()
    bench.authorization.access.clear()
    assert (await server.call("read", {})).content[0].text == "done: read"
    assert refreshes(bench) == 1
    assert stored(bench)["access_token"] == bench.protected.tokens[-1]


@pytest.mark.parametrize("keeps", [True, False])
@on_bench
async def test_calls_at_the_same_time_share_one_refresh(bench: SignInBench, keeps: bool) -> None:
    server = await bench.connected(state_dir=bench.state_dir if keeps else None)
    bench.authorization.access.clear()
    results = await asyncio.gather(*(server.call("read", {}) for _ in range(5)))
    assert [result.content[0].text for result in results] == ["done: read"] * 5
    assert refreshes(bench) == 1


@on_bench
async def test_two_processes_share_one_refresh(bench: SignInBench) -> None:
    first = await bench.connected()
    second = bench.client()
    await connect(second)
    bench.authorization.access.clear()
    await asyncio.gather(first.call("read", {}), second.call("read", {}))
    assert refreshes(bench) == 1
    assert (first.state, second.state) == ("connected", "connected")


@on_bench
async def test_a_refused_refresh_ends_the_sign_in_and_the_connection(bench: SignInBench) -> None:
    server = await bench.connected()
    bench.authorization.access.clear()
    bench.authorization.refuses_refresh = True
    with pytest.raises(McpFailure):
        await server.call("read", {})
    async with asyncio.timeout(20):
        while server.state == "connected":
            await asyncio.sleep(0)
    assert server.state == "needs-auth"
    assert server.error.startswith("The sign-in is no longer accepted.")
    kept = stored(bench)
    assert (kept["access_token"], kept["refresh_token"]) == ("", "")

    bench.authorization.refuses_refresh = False
    await sign_in(server)
    await settled(server)
    assert server.state == "connected"
    assert len(bench.authorization.registrations) == 1


@on_bench
async def test_a_stored_client_that_is_not_valid_needs_a_sign_in_and_is_not_quoted(bench: SignInBench) -> None:
    bench.authorization.expires_in = 0
    await bench.connected()
    path = bench.state_dir / "mcp-tokens.json"
    path.write_text(
        path.read_text().replace('\\"client_id\\": ', '\\"client_secret\\": [\\"hidden\\"], \\"client_id\\": ')
    )
    server = bench.client()
    await connect(server)
    assert (server.state, "hidden" in server.error) == ("needs-auth", False)


@on_bench
async def test_an_authorization_server_that_is_down_costs_no_token(bench: SignInBench) -> None:
    bench.authorization.expires_in = 0
    server = await bench.connected()
    before = stored(bench)
    bench.authorization.broken = 503
    await connect(server)
    assert server.state == "failed"
    assert "HTTP 503" in server.error
    assert stored(bench) == before
    bench.authorization.broken = 0
    await connect(server)
    assert server.state == "connected"


# ---------------------------------------------------------------------------------------------------- scope


@on_bench
async def test_a_call_that_needs_more_rights_fails_until_the_user_signs_in_for_them(bench: SignInBench) -> None:
    bench.protected.metadata["scopes_supported"] = ["files:read"]
    bench.protected.scopes["write"] = "files:write"
    server = await bench.connected()
    with pytest.raises(McpFailure, match=r"more rights than the sign-in gave \(files:write\)\. Sign in again"):
        await server.call("write", {})
    assert server.state == "connected"
    assert (await server.call("read", {})).content[0].text == "done: read"

    await sign_in(server)
    await settled(server)
    assert bench.authorization.authorizations[-1]["scope"] == "files:read files:write"
    assert (await server.call("write", {})).content[0].text == "done: write"


@on_bench
async def test_a_connection_that_needs_more_rights_needs_a_sign_in(bench: SignInBench) -> None:
    server = await bench.connected()
    bench.protected.scopes["initialize"] = bench.protected.scopes["server/discover"] = "connect"
    await connect(server)
    assert server.state == "needs-auth"
    assert "(connect)" in server.error
    await sign_in(server)
    await settled(server)
    assert server.state == "connected", server.error


@pytest.mark.parametrize(
    ("listed", "asked"), [(["files:read"], ("files:read offline_access", "consent")), (None, (None, None))]
)
@on_bench
async def test_only_scopes_of_the_server_are_asked_for_and_offline_access(
    bench: SignInBench, listed: list[str] | None, asked: tuple[str | None, str | None]
) -> None:
    bench.protected.metadata["scopes_supported"] = listed
    bench.authorization.metadata["scopes_supported"] = ["files:read", "admin", "offline_access"]
    await bench.connected()
    sent = bench.authorization.authorizations[0]
    assert (sent.get("scope"), sent.get("prompt")) == asked


# ---------------------------------------------------------------------------------------------------- sign-out


@on_bench
async def test_signing_out_revokes_and_deletes_the_tokens(bench: SignInBench) -> None:
    server = await bench.connected()
    kept = stored(bench)
    await server.sign_out()
    assert server.state == "needs-auth"
    assert bench.authorization.revoked == [kept["refresh_token"], kept["access_token"]]
    assert kept["access_token"] not in (bench.state_dir / "mcp-tokens.json").read_text()
    await connect(server)
    assert server.state == "needs-auth"
    await server.sign_out()


@pytest.mark.parametrize("offers_revocation", [True, False])
@on_bench
async def test_tokens_that_could_not_be_revoked_are_deleted(bench: SignInBench, offers_revocation: bool) -> None:
    if not offers_revocation:
        bench.authorization.metadata["revocation_endpoint"] = None
    server = await bench.connected()
    bench.authorization.revocation_status = 503
    with pytest.raises(McpFailure, match="deleted here but not revoked") if offers_revocation else nullcontext():
        await server.sign_out()
    assert server.state == "needs-auth"
    assert "secret" not in (bench.state_dir / "mcp-tokens.json").read_text()


# ---------------------------------------------------------------------------------------------------- secrecy


@on_bench
async def test_tokens_appear_in_no_error_no_log_and_no_repr(
    bench: SignInBench, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    server = await bench.connected()
    assert server._authorization is not None
    shown = [repr(server._authorization._grant), repr(server.config), *server.log]
    bench.authorization.access.clear()
    bench.authorization.broken = 400
    with pytest.raises(McpFailure) as caught:
        await server.call("read", {})
    with pytest.raises(McpFailure) as failed:
        await sign_in(server)
    shown += [str(caught.value), str(failed.value), server.error, caplog.text, *capsys.readouterr()]
    assert "secret" not in "\n".join(shown)


def test_the_address_that_tokens_are_bound_to_has_one_spelling() -> None:
    assert address_of("HTTPS://Example.com/mcp?x=1#y") == "https://example.com:443/mcp"
    assert address_of("https://example.com:443/mcp") == address_of("https://example.com/mcp")
    assert address_of("https://example.com") == "https://example.com:443/"
    assert address_of("https://user@example.com/") == ""
