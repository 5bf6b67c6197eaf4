"""Requests to authorization servers, with limits on URL, size and time.

Their URLs come from the MCP server, which may be hostile. So they must be https (http only on this machine, for a
server on this machine), and a server on the public internet cannot name an address in a private network. A public name
that changes its address after the check gains nothing: the certificate must still match the name.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urljoin

from agentcli.core.addresses import (
    Resolve,
    WebAddress,
    host_address,
    is_private_address,
    parse_web_address,
    system_resolve,
)
from agentcli.core.aio import in_thread
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.token_grant import origin_of

if TYPE_CHECKING:
    import httpx2

_MOST_BYTES = 128 * 1024
_SECONDS = 20.0
_MOST_REDIRECTS = 3
_KEPT_HEADERS = ("location", "www-authenticate", "content-type")
_PUBLIC, _PRIVATE, _LOOPBACK = 0, 1, 2


class UnreachableFailure(McpFailure):
    """A request without a usable response; it may succeed later."""


class AuthRequests:
    """HTTP client for one sign-in or refresh. An async context manager; all methods raise `McpFailure`."""

    def __init__(self, server_url: str, resolve: Resolve = system_resolve) -> None:
        self._server_url = server_url
        self._resolve = resolve
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def get(self, url: str) -> httpx2.Response:
        """Send a GET; follows redirects to the same origin."""
        response = await self._send("GET", url, {"accept": "application/json"})
        for _hop in range(_MOST_REDIRECTS):
            target = urljoin(url, response.headers.get("location", ""))
            if not response.has_redirect_location or origin_of(target) != origin_of(url):
                break
            url = target
            response = await self._send("GET", url, {"accept": "application/json"})
        return response

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> httpx2.Response:
        return await self._send("POST", url, {"accept": "application/json", **headers}, data=dict(form))

    async def post_json(self, url: str, body: object) -> httpx2.Response:
        return await self._send("POST", url, {"accept": "application/json"}, json=body)

    async def challenge_of(self, url: str, method: str) -> httpx2.Response:
        """Status and headers of the server's response to a request without a token."""
        accept = "application/json, text/event-stream"
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
        return await self._send(method, url, {"accept": accept}, reads_body=False, json=body)

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

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], *, reads_body: bool = True, **content: Any
    ) -> httpx2.Response:
        import httpx2

        address = await self.check(url)
        client = await self._client(address.scheme)
        request = client.build_request(method, url, headers={**headers, "accept-encoding": "identity"}, **content)
        try:
            async with asyncio.timeout(_SECONDS):
                response = await client.send(request, stream=True)
                try:
                    body = await _bounded(response, address.shown_host) if reads_body else b""
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.StreamError, TimeoutError, OSError) as error:
            # Only the kind of the error: its text may quote the request.
            raise UnreachableFailure(
                f"{address.shown_host} could not be reached for signing in ({type(error).__name__})."
            ) from None
        kept = [(name, value) for name, value in response.headers.multi_items() if name in _KEPT_HEADERS]
        return httpx2.Response(response.status_code, headers=kept, content=body, request=request)

    async def _client(self, scheme: str) -> httpx2.AsyncClient:
        import httpx2

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


async def _bounded(response: httpx2.Response, host: str) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnreachableFailure(f"{host} sent a compressed answer although none was asked for.")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise McpFailure(f"{host} sent more than {_MOST_BYTES // 1024} kB for signing in.")
    return bytes(body)


def is_safe_for_tokens(url: str) -> bool:
    """Whether tokens may be sent there: https, or this machine."""
    address = parse_web_address(url)
    return not isinstance(address, str) and (address.scheme == "https" or _kind(address) == _LOOPBACK)


def _kind(address: WebAddress) -> int:
    literal = host_address(address.host)
    if address.host == "localhost" or address.host.endswith(".localhost") or (literal and literal.is_loopback):
        return _LOOPBACK
    return _PRIVATE if address.is_private else _PUBLIC
