"""Finding the authorization server, and refusing what a hostile server names."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

import pytest

from agentcli.core.addresses import IPAddress
from agentcli.mcp.auth_requests import AuthRequests
from agentcli.mcp.configuration import OAuthConfig
from agentcli.mcp.connection import McpFailure
from tests.mcp.oauth.signing_in import SignInBench, on_bench, settled, sign_in
from tests.support.authorization_server import AS_METADATA, RESOURCE_METADATA, Answer
from tests.support.http_server import Request

pytestmark = pytest.mark.anyio


@on_bench
async def test_metadata_may_be_configured(bench: SignInBench) -> None:
    bench.authorization.metadata_paths = {"/elsewhere.json"}
    with pytest.raises(McpFailure, match="no OAuth metadata was found"):
        await sign_in(bench.client())
    await bench.connected(oauth=OAuthConfig(metadata_url=f"{bench.authorization.url}/elsewhere.json"))


@on_bench
async def test_metadata_may_move_within_its_origin_only(bench: SignInBench) -> None:
    original = bench.authorization.answer

    async def moved(request: Request) -> Answer:
        if request.path == AS_METADATA:
            return Answer(301, headers={"Location": target})
        return await original(request)

    bench.authorization.answer = moved  # type: ignore[method-assign]
    bench.authorization.metadata_paths = {"/moved"}
    target = f"http://localhost:{bench.authorization.port}/moved"
    with pytest.raises(McpFailure, match="no OAuth metadata was found"):
        await sign_in(bench.client())
    target = "/moved"
    await bench.connected()


@on_bench
async def test_a_code_is_not_sent_again_to_where_the_token_endpoint_redirects(bench: SignInBench) -> None:
    original = bench.authorization.answer

    async def moved(request: Request) -> Answer:
        return Answer(307, headers={"Location": "/moved"}) if request.path == "/token" else await original(request)

    bench.authorization.answer = moved  # type: ignore[method-assign]
    with pytest.raises(McpFailure, match="HTTP 307"):
        await sign_in(bench.client())
    assert "/moved" not in [request.path for request in bench.authorization.requests]


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"issuer": "https://evil.example"}, "issuer mismatch: https://evil.example"),
        ({"code_challenge_methods_supported": None}, "does not offer PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not offer PKCE"),
        ({"registration_endpoint": None}, r"Set `oauth\.clientId`"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no OAuth metadata was found"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "no OAuth metadata was found"),
        ({"authorization_endpoint": "http://example.com/authorize"}, "example.com is not encrypted"),
        ({"token_endpoint": "http://example.com/token"}, "example.com is not encrypted"),
        ({"registration_endpoint": "http://192.168.0.1/register"}, "192.168.0.1 is not encrypted"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "registration that cannot be used"),
        ({"padding": "x" * 200_000}, "sent more than 128 kB"),
    ],
)
@on_bench
async def test_metadata_that_cannot_be_trusted_or_used_ends_the_sign_in(
    bench: SignInBench, metadata: dict[str, Any], problem: str
) -> None:
    bench.authorization.metadata = metadata
    with pytest.raises(McpFailure, match=problem):
        await sign_in(bench.client())
    assert bench.authorization.access == {}


@on_bench
async def test_metadata_of_another_server_is_refused(bench: SignInBench) -> None:
    bench.protected.metadata["resource"] = "https://example.com/mcp"
    with pytest.raises(McpFailure, match=r"https://example\.com/mcp does not match"):
        await sign_in(bench.client())
    assert bench.authorization.requests == []


@on_bench
async def test_a_server_error_is_not_taken_for_missing_metadata(bench: SignInBench) -> None:
    original = bench.protected.answer

    async def broken(request: Request) -> Answer:
        return Answer(500, {}) if request.path.startswith(RESOURCE_METADATA) else await original(request)

    bench.protected.answer = broken  # type: ignore[method-assign]
    with pytest.raises(McpFailure, match=r"HTTP 500\. Try again later"):
        await sign_in(bench.client())


@on_bench
async def test_an_address_with_a_query_keeps_it(bench: SignInBench) -> None:
    bench.authorization.metadata["authorization_endpoint"] = f"{bench.authorization.url}/authorize?tenant=a#top"
    server = bench.client()
    address = await sign_in(server)
    await settled(server)
    assert "/authorize?tenant=a&response_type=code" in address
    assert "#" not in address


# --------------------------------------------------------------------------------------------------------- addresses

PUBLIC, PRIVATE, HERE = "93.184.216.34", "10.0.0.7", "127.0.0.1"


async def resolve(host: str, port: int) -> Sequence[IPAddress]:
    """Names tell what they lead to."""
    if host.startswith("unknown"):
        raise OSError("not found")
    both = [PUBLIC, PRIVATE] if host.startswith("both") else [PRIVATE if host.startswith("inside") else PUBLIC]
    return [ipaddress.ip_address(text) for text in both]


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://mcp.example.com/", "https://auth.example.com/token"),
        ("https://mcp.example.com/", f"https://{PUBLIC}/"),
        ("https://mcp.example.com/", "https://unknown.example.com/"),
        ("https://inside.example.com/", "https://inside-auth.example.com/"),
        (f"https://{PRIVATE}/", "https://10.0.0.8/"),
        ("https://wiki.corp/", "https://login.corp/"),
        ("https://wiki.corp/", "https://auth.example.com/"),
        ("http://localhost:8000/", "http://127.0.0.1:9000/"),
        ("http://127.0.0.1:8000/", "https://auth.example.com/"),
        ("http://127.0.0.1:8000/", f"https://{PRIVATE}/"),
    ],
)
async def test_addresses_that_a_server_may_name(server: str, address: str) -> None:
    await AuthRequests(server, resolve).check(address)


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://mcp.example.com/", "http://auth.example.com/"),
        ("https://mcp.example.com/", f"https://{PRIVATE}/"),
        ("https://mcp.example.com/", "https://169.254.169.254/latest/meta-data"),
        ("https://mcp.example.com/", "https://0xa9fea9fe/"),
        ("https://mcp.example.com/", "https://[::1]/"),
        ("https://mcp.example.com/", "https://localhost/"),
        ("https://mcp.example.com/", "http://127.0.0.1:631/"),
        ("https://mcp.example.com/", "https://router.lan/"),
        ("https://mcp.example.com/", "https://inside.example.com/"),
        ("https://mcp.example.com/", "https://both.example.com/"),
        ("https://both.example.com/", "https://router.lan/"),
        ("https://both.example.com/", "https://inside.example.com/"),
        ("https://inside.example.com/", "http://127.0.0.1:631/"),
        ("https://wiki.corp/", "http://127.0.0.1:631/"),
        ("https://wiki.corp/", "http://login.corp/"),
        ("https://mcp.example.com/", "https://user:word@auth.example.com/"),
        ("https://mcp.example.com/", "file:///etc/passwd"),
        ("https://mcp.example.com/", "javascript:alert(1)"),
        ("https://mcp.example.com/", "https:///"),
        ("https://mcp.example.com/", "https://auth.example.com/\x1b[2J"),
    ],
)
async def test_addresses_that_a_server_may_not_name(server: str, address: str) -> None:
    with pytest.raises(McpFailure, match="Sign-in was refused"):
        await AuthRequests(server, resolve).check(address)
