"""Signing in to a protected server: the whole flow over real sockets, and everything that must stop it."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agentcli.mcp import sign_in as sign_in_module
from agentcli.mcp.configuration import OAuthConfig, ServerConfig, ServerSurroundings
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.server import McpServer, ServerState
from agentcli.mcp.sign_in import RedirectListener
from tests.core.test_browser import opener
from tests.mcp.oauth.signing_in import SignInBench, connect, on_bench, settled, sign_in
from tests.support.authorization_server import AuthorizationServer, browse

pytestmark = pytest.mark.anyio
FAR = "https://example.com/mcp"


@on_bench
async def test_without_a_token_a_server_needs_a_sign_in_and_none_is_started(bench: SignInBench) -> None:
    server = bench.client()
    await connect(server)
    assert server.state == "needs-auth"
    assert server.error == "Not signed in. Sign in with /mcp, or run: agentcli mcp login files"
    assert server.signs_in
    assert bench.authorization.requests == []


@on_bench
async def test_the_user_signs_in_with_a_client_that_registers_itself(bench: SignInBench) -> None:
    server = bench.client()
    await connect(server)
    address = await sign_in(server)
    await settled(server)
    assert server.state == "connected", server.error
    result = await server.call("read", {})
    assert result.content[0].text == "done: read"

    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    (registered,) = bench.authorization.registrations
    assert address.startswith(f"{bench.authorization.url}/authorize?")
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == bench.protected.endpoint
    assert registered["redirect_uris"] == [asked["redirect_uri"]]
    assert registered["token_endpoint_auth_method"] == "none"
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert bench.authorization.token_requests[0]["resource"] == bench.protected.endpoint


@on_bench
async def test_a_client_that_was_registered_beforehand_sends_its_secret_and_uses_its_port(bench: SignInBench) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = {
        "client_id": "our:id",
        "client_secret": "our secret",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
    }
    bench.authorization.clients["our:id"] = known
    oauth = OAuthConfig(client_id="our:id", client_secret="our secret", callback_port=port, scopes=("files:read",))
    await bench.connected(oauth=oauth)
    assert bench.authorization.registrations == []
    assert bench.authorization.authorizations[0]["scope"] == "files:read"
    assert "our secret" not in repr(oauth)


@on_bench
async def test_a_server_that_turns_hostile_gets_no_client_secret_by_naming_another_authorization_server(
    bench: SignInBench,
) -> None:
    async def visit(address: str) -> None:
        redirect_uri = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        known = {"client_id": "ours", "client_secret": "our secret", "redirect_uris": [redirect_uri]}
        bench.authorization.clients["ours"] = known
        await browse(address)

    server = bench.client(oauth=OAuthConfig(client_id="ours", client_secret="our secret"))
    await sign_in(server, visit)
    async with AuthorizationServer() as other:
        bench.protected.metadata["authorization_servers"] = [other.issuer]
        with pytest.raises(McpFailure, match="your client secret is for"):
            await sign_in(server)
        assert (other.authorizations, other.token_requests) == ([], [])


@on_bench
async def test_a_lifetime_that_no_clock_has_ends_the_sign_in(bench: SignInBench) -> None:
    bench.authorization.expires_in = 10**400
    with pytest.raises(McpFailure, match="tokens that are not valid"):
        await sign_in(bench.client())


@on_bench
async def test_a_configured_port_that_is_in_use_is_reported(bench: SignInBench) -> None:
    oauth = OAuthConfig(client_id="known", callback_port=bench.protected.port)
    with pytest.raises(McpFailure, match=f"Port {bench.protected.port}, .* in use"):
        await sign_in(bench.client(oauth=oauth))


@on_bench
async def test_a_metadata_document_is_the_id_where_the_server_accepts_that(bench: SignInBench) -> None:
    document = "https://example.com/agentcli.json"
    bench.authorization.metadata["client_id_metadata_document_supported"] = True

    async def visit(address: str) -> None:
        redirect_uri = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        bench.authorization.clients[document] = {"redirect_uris": [redirect_uri]}
        await browse(address)

    server = bench.client(oauth=OAuthConfig(client_metadata_url=document))
    await sign_in(server, visit)
    assert bench.authorization.registrations == []
    assert bench.authorization.token_requests[0]["client_id"] == document


@on_bench
async def test_a_registration_for_a_port_that_is_in_use_is_made_again(bench: SignInBench) -> None:
    server = await bench.connected()
    port = urlsplit(bench.authorization.registrations[0]["redirect_uris"][0]).port
    with socket.create_server(("127.0.0.1", port)):
        await sign_in(server)
    assert len(bench.authorization.registrations) == 2


@on_bench
async def test_a_forgotten_registration_is_made_again_by_the_next_sign_in(bench: SignInBench) -> None:
    server = await bench.connected()

    async def visit(address: str) -> None:
        redirect = (await browse(address, follows=False)).headers["location"]
        bench.authorization.clients.clear()
        await browse(redirect)

    with pytest.raises(McpFailure, match="invalid_client"):
        await sign_in(server, visit)
    await sign_in(server)
    assert len(bench.authorization.registrations) == 2


@pytest.mark.parametrize(
    ("redirect", "problem"),
    [
        ({"state": "another"}, "wrong state"),
        ({"state": None}, "wrong state"),
        ({"iss": "https://evil.example"}, "wrong iss"),
        ({"iss": None}, "wrong iss"),
        ({"code": None, "error": "access_denied"}, "refused: access_denied"),
        ({"code": "forged"}, "invalid_grant"),
    ],
)
@on_bench
async def test_an_answer_that_is_not_ours_gives_no_token(
    bench: SignInBench, redirect: dict[str, str | None], problem: str
) -> None:
    bench.authorization.redirect = redirect
    server = bench.client()
    with pytest.raises(McpFailure, match=problem):
        await sign_in(server)
    assert bench.authorization.access == {}
    assert not (bench.state_dir / "mcp-tokens.json").exists()
    bench.authorization.redirect = {}
    await sign_in(server)


# ------------------------------------------------------------------------------------------------------------ pasting


@pytest.mark.parametrize("shape", ["{address}", " {address}\n", "{query}", "{code}"])
@on_bench
async def test_the_pasted_address_or_code_completes_a_sign_in(bench: SignInBench, shape: str) -> None:
    bench.authorization.metadata["authorization_response_iss_parameter_supported"] = None
    server = bench.client()

    async def visit(address: str) -> None:
        redirect = (await browse(address, follows=False)).headers["location"]
        query = urlsplit(redirect).query
        server.paste(shape.format(address=redirect, query=query, code=parse_qs(query)["code"][0]))

    await sign_in(server, visit)
    await settled(server)
    assert server.state == "connected"


@on_bench
async def test_a_code_alone_is_not_enough_where_the_server_promises_to_name_itself(bench: SignInBench) -> None:
    server = bench.client()

    async def visit(address: str) -> None:
        redirect = (await browse(address, follows=False)).headers["location"]
        server.paste(parse_qs(urlsplit(redirect).query)["code"][0])

    with pytest.raises(McpFailure, match="paste the whole address"):
        await sign_in(server, visit)


@on_bench
async def test_a_wrong_paste_is_refused_and_the_sign_in_goes_on(bench: SignInBench) -> None:
    server = bench.client()
    with pytest.raises(McpFailure, match="No sign-in to files is waiting"):
        server.paste("http://127.0.0.1/callback?code=1&state=2")

    async def visit(address: str) -> None:
        for text, problem in (
            ("", "neither an address nor a code"),
            ("I am done", "neither an address nor a code"),
            (address, "has no code"),
            ("http://127.0.0.1/callback?code=1&state=2", "another sign-in"),
            ("http://127.0.0.1/callback?code=1&code=2", "has no code"),
            ("http://[/callback?code=1", "has no code"),
        ):
            with pytest.raises(McpFailure, match=problem):
                server.paste(text)
        await browse(address)

    await sign_in(server, visit)


# ------------------------------------------------------------------------------------------------------- the listener


@on_bench
async def test_the_page_after_a_sign_in_repeats_nothing_of_the_request(bench: SignInBench) -> None:
    pages: list[str] = []

    async def visit(address: str) -> None:
        redirect_uri = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        icon = await browse(redirect_uri.replace("/callback", "/favicon.ico?code=1&state=2"))
        empty = await browse(redirect_uri)
        assert (icon.status_code, icon.text, empty.status_code) == (404, "", 404)
        redirect = (await browse(address, follows=False)).headers["location"]
        page = await browse(f"{redirect}&x=<script>")
        assert page.headers["content-security-policy"] == "default-src 'none'"
        pages.append(page.text)

    await sign_in(bench.client(), visit)
    assert "return to the terminal" in pages[0]
    assert "code-" not in pages[0]
    assert "script" not in pages[0]


@on_bench
async def test_a_cancelled_sign_in_leaves_no_listener_behind(bench: SignInBench) -> None:
    server = bench.client()
    shown: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.ensure_future(server.sign_in(shown.put_nowait))
    port = urlsplit(parse_qs(urlsplit(await shown.get()).query)["redirect_uri"][0]).port
    assert port is not None
    # A browser may open a connection and send nothing.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(McpFailure, match="already waiting"):
        await server.sign_in(lambda _address: None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(McpFailure, match="No sign-in"):
        server.paste("code")
    await sign_in(server)


@on_bench
async def test_a_sign_in_that_nobody_completes_ends(bench: SignInBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_module, "WAIT_SECONDS", 0.0)

    async def look_away(_address: str) -> None:
        pass

    with pytest.raises(McpFailure, match="The sign-in timed out"):
        await sign_in(bench.client(), look_away)


async def test_only_the_first_answer_counts_and_a_huge_request_none() -> None:
    async with RedirectListener() as listener:
        port = urlsplit(listener.redirect_uri).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /callback?code=" + b"x" * 100_000)
        assert await reader.read() == b""
        writer.close()
        assert (await browse(f"{listener.redirect_uri}?code=one&state=s")).status_code == 200
        assert (await browse(f"{listener.redirect_uri}?code=two&state=s")).status_code == 404
        assert (await listener.answer()).code == "one"


# ------------------------------------------------------------------------------------------------- who can sign in


@pytest.mark.parametrize(
    ("config", "state", "said"),
    [
        (ServerConfig("a", "stdio", command="/bin/true"), "waiting", "has no sign-in"),
        (ServerConfig("a", "http", url=FAR, headers={"authorization": "Bearer mine"}), "waiting", "has no sign-in"),
        (ServerConfig("a", "http", url=FAR, headers_helper="print-headers"), "waiting", "has no sign-in"),
        (ServerConfig("a", "http", url="http://example.com/mcp"), "waiting", "not encrypted"),
        (ServerConfig("a", "http", url=FAR), "unapproved", "not approved"),
    ],
)
async def test_servers_that_nobody_can_sign_in_to(
    tmp_path: Path, config: ServerConfig, state: ServerState, said: str
) -> None:
    server = McpServer(config, ServerSurroundings(tmp_path), ServerRequests(), state=state)
    with pytest.raises(McpFailure, match=said):
        await server.sign_in(lambda _address: None)


@on_bench
async def test_a_server_of_the_older_transport_has_a_sign_in_too(bench: SignInBench) -> None:
    config = ServerConfig("old", "sse", url=bench.protected.endpoint)
    server = McpServer(config, ServerSurroundings(bench.folder), ServerRequests())
    bench.servers.append(server)
    await connect(server)
    assert server.state == "needs-auth"
    await sign_in(server)
    await settled(server)
    assert {request.method for request in bench.protected.requests if request.path == "/mcp"} == {"GET"}
    assert bench.protected.tokens[-1] in bench.authorization.access


@on_bench
async def test_a_disabled_server_stays_disabled_after_a_sign_in(bench: SignInBench) -> None:
    server = bench.client()
    await server.disable()
    await sign_in(server)
    assert server.state == "disabled"
    await server.enable()
    await settled(server)
    assert server.state == "connected"


@pytest.mark.skipif(sys.platform == "darwin", reason="the opener has another name")
@pytest.mark.parametrize("opens_browser", [True, False])
@on_bench
async def test_only_a_sign_in_opens_the_browser_and_the_address_is_shown_first(
    bench: SignInBench, opens_browser: bool
) -> None:
    opened = opener(bench.folder / "bin")
    environ = {"PATH": f"{bench.folder / 'bin'}:/usr/bin:/bin", "DISPLAY": ":0"}
    server = bench.client(environ=environ, opens_browser=opens_browser)
    await connect(server)
    assert (server.state, opened.exists()) == ("needs-auth", False)
    address = await sign_in(server)
    assert opened.exists() == opens_browser
    if opens_browser:
        assert opened.read_text().splitlines()[0] == f"1|{address}"
