"""Requests to authorization servers within limits: the addresses that an MCP server may name, refresh and revocation.

Imports httpx2 and the library, so it is itself imported inside functions only. No error text contains a token or an
answer.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from agentcli import __version__
from agentcli.core.addresses import (
    Resolve,
    WebAddress,
    host_address,
    is_private_address,
    parse_web_address,
    system_resolve,
)
from agentcli.core.aio import in_thread
from agentcli.core.files.access import parse_json
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.authorization import AuthChallenge, TokenGrant, is_loopback
from agentcli.mcp.connection import McpFailure

_MAX_BYTES = 128 * 1024
_SECONDS = 20.0
_KEPT_HEADERS = ("location", "www-authenticate", "content-type")
_PUBLIC, _PRIVATE, _LOOPBACK = 0, 1, 2
_IN_A_HEADER = re.compile(r"[\x21-\x7e]+")
_MAX_TOKEN = 16 * 1024
_MARGIN_SECONDS = 30.0
"""Tokens are renewed this much before they expire, or a tenth of their lifetime if that is less."""
_MAX_LIFETIME = 10**9
"""In seconds; a larger number may not fit into a float."""


class UnreachableFailure(McpFailure):
    """A request without a usable response; it may succeed later."""


class RefusedFailure(McpFailure):
    """The authorization server refused a code, a token or the client."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """Error code such as `invalid_grant`; empty if there was none."""


class AuthRequests:
    """HTTP client for one sign-in or refresh. An async context manager; all methods raise `McpFailure`.

    Addresses come from the MCP server, which may be hostile. So they must be https (http only on this machine, for a
    server on this machine), and a server on the public internet cannot name an address in a private network. A public
    name that changes its address after the check gains nothing: the certificate must still match the name.
    """

    def __init__(self, server_url: str, resolve: Resolve = system_resolve) -> None:
        self._server_url = server_url
        self._resolve = resolve
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def challenge(self, method: str) -> AuthChallenge:
        """The server's challenge to a request without a token."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
        accept = {"accept": "application/json, text/event-stream"}
        request = httpx2.Request(method, self._server_url, headers=accept, json=body)
        response = await self.send(request, reads_body=False)
        return challenge_of(response) if response.status_code == httpx2.codes.UNAUTHORIZED else AuthChallenge()

    async def check(self, url: str) -> WebAddress:
        """Raise `McpFailure` unless this URL may be used for signing in to the server."""
        address, server = parse_web_address(url), parse_web_address(self._server_url)
        if isinstance(address, str) or isinstance(server, str):
            problem = address if isinstance(address, str) else server
            raise McpFailure(f"Sign-in was refused because of an address that is not valid. {problem}")
        kind, most = _kind(address), _kind(server)
        if address.scheme != "https" and kind != _LOOPBACK:
            raise McpFailure(f"Sign-in was refused: {address.shown_host} is not encrypted (https).")
        if kind == _PUBLIC and most == _PUBLIC and await self._leads_inside(address):
            kind = _PRIVATE
        # All addresses: a public server could list a private one as well, to be allowed to name such hosts.
        if kind > most and not (kind == _PRIVATE and await self._leads_inside(server, all)):
            raise McpFailure(
                f"Sign-in was refused: {server.shown_host} names {address.shown_host}, which is in a private network."
            )
        return address

    async def _leads_inside(self, address: WebAddress, judge: Callable[[Iterable[bool]], bool] = any) -> bool:
        """Whether any or all addresses of a host are in a private network. A name that only a proxy can resolve has
        none."""
        if host_address(address.host) is not None:
            return address.is_private
        try:
            found = await self._resolve(address.host, address.port)
        except (OSError, ValueError):
            return False
        return bool(found) and judge(map(is_private_address, found))

    async def send(self, request: httpx2.Request, *, reads_body: bool = True) -> httpx2.Response:
        """Send a request of the flow, without following redirects."""
        address = await self.check(str(request.url))
        client = await self._client(address.scheme)
        request.headers["accept-encoding"] = "identity"
        request.headers.setdefault("accept", "application/json")
        try:
            async with asyncio.timeout(_SECONDS):
                response = await client.send(request, stream=True)
                try:
                    body = await _read_bounded(response, address.shown_host) if reads_body else b""
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.StreamError, TimeoutError, OSError) as error:
            # Only the kind of the error: its text may quote the request.
            raise UnreachableFailure(
                f"{address.shown_host} could not be reached for signing in ({type(error).__name__})."
            ) from None
        kept = [(name, value) for name, value in response.headers.multi_items() if name in _KEPT_HEADERS]
        copy = httpx2.Response(response.status_code, headers=kept, content=body, request=request)
        if request.method == "GET":
            # The library follows it if it stays within its origin. Codes, tokens and secrets are never sent again.
            copy.next_request = response.next_request
        return copy

    async def _client(self, scheme: str) -> httpx2.AsyncClient:
        if scheme not in self._clients:
            is_local = scheme == "http"
            self._clients[scheme] = await in_thread(
                httpx2.AsyncClient,
                # Loading certificates takes 25 ms. An empty store refuses every certificate.
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_local else True,
                trust_env=not is_local,
                timeout=_SECONDS,
                follow_redirects=False,
            )
        return self._clients[scheme]


async def _read_bounded(response: httpx2.Response, host: str) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnreachableFailure(f"{host} sent a compressed answer although none was asked for.")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise McpFailure(f"{host} sent more than {_MAX_BYTES // 1024} kB for signing in.")
    return bytes(body)


def _kind(address: WebAddress) -> int:
    if is_loopback(address):
        return _LOOPBACK
    return _PRIVATE if address.is_private else _PUBLIC


def challenge_of(response: httpx2.Response) -> AuthChallenge:
    """Contents of a server's `WWW-Authenticate` header."""

    def field(name: str) -> str:
        return extract_field_from_www_auth(response, name) or ""

    lacks_scope = response.status_code == 403 and field("error") == "insufficient_scope"
    return AuthChallenge(field("resource_metadata"), field("scope"), lacks_scope)


# -------------------------------------------------------------------------------------------------------------- tokens


async def refresh(requests: AuthRequests, grant: TokenGrant) -> TokenGrant:
    """Refresh tokens. Raises `RefusedFailure` if the user has to sign in again, another `McpFailure` if it may work
    later."""
    form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token, "resource": grant.resource}
    response = await requests.send(_client_request(grant, grant.token_endpoint, form))
    return with_tokens(grant, read_tokens(response, grant.issuer))


async def revoke(requests: AuthRequests, grant: TokenGrant) -> None:
    """Revoke both tokens (RFC 7009), if the server supports it. Raises `McpFailure`."""
    for token, kind in ((grant.refresh_token, "refresh_token"), (grant.access_token, "access_token")):
        if token and grant.revocation_endpoint:
            form = {"token": token, "token_type_hint": kind}
            response = await requests.send(_client_request(grant, grant.revocation_endpoint, form))
            if response.status_code != 200:
                raise _failure(response, grant.issuer)


def read_stored_client(grant: TokenGrant) -> OAuthClientInformationFull | None:
    try:
        return OAuthClientInformationFull.model_validate(grant.client)
    except ValidationError:
        return None


def _client_request(grant: TokenGrant, url: str, form: dict[str, str]) -> httpx2.Request:
    """A request that the registered client authenticates."""
    client = read_stored_client(grant)
    if client is None:
        raise RefusedFailure(f"The stored sign-in to {plain_line(grant.name, 80)} is not valid.")
    context = flow_provider(grant.resource, "http://127.0.0.1/callback", client).context
    context.client_info = client
    data, headers = context.prepare_token_auth({**form, "client_id": client.client_id}, {})
    return httpx2.Request("POST", url, data=data, headers=headers)


def read_tokens(response: httpx2.Response, issuer: str) -> OAuthToken:
    """The tokens of an answer. Raises `McpFailure`."""
    if response.status_code not in (200, 201):
        raise _failure(response, issuer)
    try:
        tokens = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        # Not chained: the error quotes the response.
        raise McpFailure(f"{plain_line(issuer, 200)} sent tokens that are not valid.") from None
    size = len(tokens.access_token) + len(tokens.refresh_token or "")
    is_valid = _IN_A_HEADER.fullmatch(tokens.access_token) and size <= _MAX_TOKEN
    if not is_valid or abs(tokens.expires_in or 0) > _MAX_LIFETIME:
        raise McpFailure(f"{plain_line(issuer, 200)} sent tokens that are not valid.")
    return tokens


def with_tokens(grant: TokenGrant, tokens: OAuthToken) -> TokenGrant:
    expires_at = 0.0
    if tokens.expires_in is not None:
        lifetime = max(0, tokens.expires_in)
        expires_at = time.time() + lifetime - min(_MARGIN_SECONDS, lifetime / 10)
    return replace(
        grant,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or grant.refresh_token,
        expires_at=expires_at,
        # An omitted scope is the requested one, or as before.
        scope=grant.scope if tokens.scope is None else tokens.scope,
    )


def _failure(response: httpx2.Response, issuer: str) -> McpFailure:
    shown = plain_line(issuer, 200)
    if response.status_code not in (400, 401, 403):
        return UnreachableFailure(f"{shown} answered with an error (HTTP {response.status_code}).")
    try:
        answer = parse_json(response.content)
        code = answer.get("error") if isinstance(answer, dict) else None
    except ValueError:
        code = None
    # Only a code of the standard form: anything else may quote the request.
    known = code if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,60}", code) else ""
    return RefusedFailure(f"{shown} refused the sign-in ({known or f'HTTP {response.status_code}'}).", known)


def flow_provider(
    url: str, redirect_uri: str, client: OAuthClientInformationFull | None, **options: Any
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="none",  # noqa: S106 - not a secret
        client_name="agentcli",
        software_id="agentcli",
        software_version=__version__,
    )
    return OAuthClientProvider(url, metadata, _FlowStorage(client), **options)


class _FlowStorage:
    """What the library's flow starts with: a client, but no tokens. `TokenStore` keeps what it ends with."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...
