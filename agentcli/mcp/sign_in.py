"""Sign in to MCP servers: the library's authorization code flow, with a guard between it and the network.

The library's `OAuthClientProvider` finds the authorization server, registers agentcli there and exchanges the code. Its
requests are sent one by one by `AuthRequests`, which refuses addresses that a server may not name and limits size and
time; what it answers is checked before the library goes on. The class is not used inside connections: it holds one lock
over every request, so that calls wait for one another, starts a sign-in in the middle of any request, and knows after a
restart neither when a token expires nor where to refresh it.

Imports httpx2 and the library, so it is itself imported inside functions only. No error text contains a token or an
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Self
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    union_scopes,
    validate_authorization_response_iss,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from agentcli.core.aio import cancel_and_wait
from agentcli.core.files.access import parse_json
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.auth_requests import (
    AuthRequests,
    UnreachableFailure,
    flow_provider,
    read_stored_client,
    read_tokens,
    with_tokens,
)
from agentcli.mcp.authorization import AuthChallenge, TokenGrant, address_of
from agentcli.mcp.configuration import ServerConfig
from agentcli.mcp.connection import McpFailure

WAIT_SECONDS = 300.0
_OFFLINE = "offline_access"
_SECRET_METHODS = ("client_secret_basic", "client_secret_post")
_SERVER_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_HOST = "127.0.0.1"
_PATH = "/callback"
_MAX_HEAD = 16 * 1024
"""Bytes of a request's head."""
_REQUEST_SECONDS = 10.0
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>agentcli</title>"
    b"<p>agentcli has received the answer. Close this page and return to the terminal."
)
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)


class SignIn:
    """One run of the authorization code flow. `earlier`: grant of the last sign-in. `missing_scope`: what a request
    needed that this one did not have."""

    def __init__(
        self,
        requests: AuthRequests,
        config: ServerConfig,
        challenge: AuthChallenge,
        earlier: TokenGrant | None,
        missing_scope: str = "",
    ) -> None:
        self._requests = requests
        self._config = config
        self._challenge = challenge
        self._earlier = earlier
        asked = union_scopes(" ".join(config.oauth.scopes), missing_scope or challenge.scope)
        granted = earlier.scope if earlier is not None and missing_scope else ""
        self._scope = (union_scopes(granted, asked) or "").replace('"', "")
        """The scope to request; empty: the one that the server lists."""
        self._state = ""
        self._listener: RedirectListener | None = None
        self._metadata: Json | None = None
        """Configured metadata of the authorization server; None: it is discovered."""
        self._tokens: OAuthToken | None = None

    async def run(self, show: Callable[[str], Awaitable[None]]) -> TokenGrant:
        """Run the flow. `show` gets the URL that the user has to visit. Raises `McpFailure`."""
        config, port = self._config, self._config.oauth.callback_port
        if config.oauth.metadata_url:
            self._metadata = await self._make_metadata(config.oauth.metadata_url)
        async with RedirectListener(port or _earlier_port(self._earlier), exact=bool(port)) as listener:
            self._listener = listener
            provider: OAuthClientProvider

            async def show_address(address: str) -> None:
                await self._show(provider.context, address, show)

            provider = flow_provider(
                config.url,
                listener.redirect_uri,
                self._find_client(listener.redirect_uri),
                redirect_handler=show_address,
                callback_handler=lambda: self._answer(provider.context, listener),
                client_metadata_url=config.oauth.client_metadata_url or None,
            )
            try:
                await self._drive(provider)
            finally:
                self._state = ""
            return self._grant(provider.context, listener.redirect_uri)

    def paste(self, text: str) -> None:
        """Accept the URL of the last page, or the code in it. Raises `McpFailure` if it is neither."""
        text = text.strip()
        if self._listener is None or not self._state:
            raise McpFailure("The sign-in is not waiting for an address.")
        if "://" not in text and "code=" not in text:
            if not text or any(character.isspace() for character in text):
                raise McpFailure("This is neither an address nor a code. Paste the address of the last page.")
            # PKCE binds the code to this sign-in, so a code alone needs no state.
            self._listener.accept(RedirectAnswer(code=text, state=self._state))
            return
        answer = RedirectAnswer.parse(text if "?" in text else f"?{text}")
        if answer is None:
            raise McpFailure("This address has no code. Paste the address of the last page.")
        if not self._is_ours(answer):
            raise McpFailure("This address belongs to another sign-in. Start again with the address shown last.")
        self._listener.accept(answer)

    async def _drive(self, provider: OAuthClientProvider) -> None:
        """Answer the requests of the library's flow, from the server's 401 to the tokens."""
        original = httpx2.Request("POST", self._config.url, headers={"mcp-protocol-version": LATEST_PROTOCOL_VERSION})
        fields = {"scope": self._scope, "resource_metadata": self._challenge.metadata_url}
        header = ", ".join(f'{name}="{value}"' for name, value in fields.items() if value)
        refusal = httpx2.Response(401, headers={"www-authenticate": f"Bearer {header}"}, request=original)
        flow = provider.async_auth_flow(original)
        try:
            await anext(flow)
            request = await flow.asend(refusal)
            while request is not original:
                request = await flow.asend(await self._send(provider.context, request))
        except OAuthRegistrationError:
            raise McpFailure(f"{_issuer(provider.context)} sent a registration that cannot be used.") from None
        except OAuthFlowError as error:
            raise McpFailure(f"Sign-in was refused: {plain_line(str(error), 300)}.") from None
        finally:
            await flow.aclose()

    async def _send(self, context: OAuthContext, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            if self._metadata is not None and any(name in request.url.path for name in _SERVER_METADATA):
                return self._adjust(context, httpx2.Response(200, json=self._metadata, request=request))
            response = await self._requests.send(request)
            _raise_if_broken(response)
            return self._adjust(context, response)
        metadata = _usable_metadata(context)
        if request.headers.get("content-type", "").startswith("application/json"):
            return await self._register(metadata, request)
        response = await self._requests.send(request)
        self._tokens = read_tokens(response, str(metadata.issuer))
        return response

    def _adjust(self, context: OAuthContext, response: httpx2.Response) -> httpx2.Response:
        """Metadata with the configured authorization server, and without the scopes that only the authorization server
        lists: the library would request all of them."""
        try:
            document = parse_json(response.content) if response.status_code == 200 else None
        except ValueError:
            return response
        if not isinstance(document, dict):
            return response
        if self._metadata is not None and "authorization_servers" in document:
            document["authorization_servers"] = [self._metadata["issuer"]]
        resource, listed = context.protected_resource_metadata, document.get("scopes_supported")
        if "authorization_endpoint" in document:
            # Many servers issue refresh tokens only for this scope.
            is_offered = isinstance(listed, list) and _OFFLINE in listed
            has_scope = self._scope or (resource is not None and resource.scopes_supported)
            document["scopes_supported"] = [_OFFLINE] if is_offered and has_scope else None
        return httpx2.Response(200, json=document, request=response.request)

    async def _make_metadata(self, url: str) -> Json:
        response = await self._requests.send(httpx2.Request("GET", url))
        _raise_if_broken(response)
        try:
            return OAuthMetadata.model_validate_json(response.content).model_dump(mode="json", exclude_none=True)
        except ValidationError:
            raise _no_metadata(url) from None

    async def _register(self, metadata: OAuthMetadata, request: httpx2.Request) -> httpx2.Response:
        issuer = plain_line(str(metadata.issuer), 200)
        if self._config.oauth.client_id and self._earlier is not None:
            raise McpFailure(
                f"Sign-in was refused: the server now names the authorization server {issuer}, and your client secret "
                f"is for {plain_line(self._earlier.issuer, 200)}. If that is right, sign out first."
            )
        if metadata.registration_endpoint is None:
            raise McpFailure(f"{issuer} does not register clients automatically. Set `oauth.clientId` for this server.")
        offered = metadata.token_endpoint_auth_methods_supported
        if offered is not None and "none" not in offered:
            body = {**json.loads(request.content), "token_endpoint_auth_method": _secret_method(metadata)}
            request = httpx2.Request("POST", request.url, json=body)
        response = await self._requests.send(request)
        if response.status_code not in (200, 201):
            raise McpFailure(
                f"{issuer} refused to register this program (HTTP {response.status_code}). "
                "Set `oauth.clientId` for this server."
            )
        return response

    def _find_client(self, redirect_uri: str) -> OAuthClientInformationFull | None:
        """The configured client, or the one that was registered earlier; None: a new one has to be registered. With
        another issuer than the server names now, the library does not use it."""
        oauth, earlier = self._config.oauth, self._earlier
        if oauth.client_id:
            return OAuthClientInformationFull(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret or None,
                token_endpoint_auth_method="none",  # noqa: S106 - not a secret
                issuer=earlier.issuer if earlier is not None and oauth.client_secret else None,
            )
        client = read_stored_client(earlier) if earlier is not None and earlier.redirect_uri == redirect_uri else None
        is_expired = client is not None and 0 < (client.client_secret_expires_at or 0) <= time.time()
        return None if is_expired else client

    async def _show(self, context: OAuthContext, address: str, show: Callable[[str], Awaitable[None]]) -> None:
        metadata = _usable_metadata(context)
        endpoint = str(metadata.authorization_endpoint)
        await self._requests.check(endpoint)
        if context.client_info is not None and self._config.oauth.client_secret:
            context.client_info.token_endpoint_auth_method = _secret_method(metadata)
        query = address.removeprefix(f"{endpoint}?")
        self._state = parse_qs(query)["state"][0]
        endpoint = endpoint.partition("#")[0]
        await show(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")

    async def _answer(self, context: OAuthContext, listener: RedirectListener) -> AuthorizationCodeResult:
        """The code, after checking that it belongs to this sign-in and this authorization server."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                answer = await listener.answer()
        except TimeoutError:
            raise McpFailure(f"The sign-in timed out after {WAIT_SECONDS / 60:g} minutes.") from None
        if not self._is_ours(answer):
            raise McpFailure("Sign-in was refused: the answer belongs to another sign-in (wrong state).")
        try:
            validate_authorization_response_iss(answer.issuer, context.oauth_metadata)
        except OAuthFlowError:
            raise McpFailure(
                "Sign-in was refused: the answer does not name the authorization server (wrong iss). "
                "If you pasted a code, paste the whole address."
            ) from None
        if answer.error is not None or not answer.code:
            raise McpFailure(f"The authorization server refused: {plain_line(answer.error or 'no code', 80)}.")
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)

    def _is_ours(self, answer: RedirectAnswer) -> bool:
        return answer.state is not None and secrets.compare_digest(answer.state.encode(), self._state.encode())

    def _grant(self, context: OAuthContext, redirect_uri: str) -> TokenGrant:
        client, metadata, tokens = context.client_info, context.oauth_metadata, self._tokens
        assert client is not None
        assert metadata is not None
        assert tokens is not None
        is_registered = client.client_id not in (self._config.oauth.client_id, self._config.oauth.client_metadata_url)
        grant = TokenGrant(
            name=self._config.name,
            address=address_of(self._config.url),
            issuer=str(metadata.issuer),
            client=client.model_dump(mode="json", exclude_none=True),
            redirect_uri=redirect_uri if is_registered else "",
            token_endpoint=str(metadata.token_endpoint),
            revocation_endpoint=str(metadata.revocation_endpoint or ""),
            resource=context.get_resource_url(),
            scope=context.client_metadata.scope or "",
        )
        return with_tokens(grant, tokens)


def _usable_metadata(context: OAuthContext) -> OAuthMetadata:
    metadata = context.oauth_metadata
    if metadata is None:
        raise _no_metadata(context.auth_server_url or context.get_authorization_base_url(context.server_url))
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise McpFailure(f"{_issuer(context)} does not offer PKCE (S256), which signing in needs.")
    return metadata


def _no_metadata(url: str) -> McpFailure:
    return McpFailure(f"{plain_line(url, 200)} offers no sign-in: no OAuth metadata was found there.")


def _issuer(context: OAuthContext) -> str:
    return plain_line(str(context.oauth_metadata.issuer) if context.oauth_metadata is not None else "The server", 200)


def _raise_if_broken(response: httpx2.Response) -> None:
    """Raise for a server error: it does not show whether there is metadata, so no other URL is tried."""
    if response.status_code >= 500 or response.status_code == 429:
        shown = plain_line(str(response.request.url), 200)
        raise UnreachableFailure(f"{shown} answered with HTTP {response.status_code}. Try again later.")


def _secret_method(metadata: OAuthMetadata) -> str:
    offered = metadata.token_endpoint_auth_methods_supported or _SECRET_METHODS
    return next((method for method in _SECRET_METHODS if method in offered), _SECRET_METHODS[0])


def _earlier_port(earlier: TokenGrant | None) -> int:
    """The port that the client was registered with: many servers accept no other one."""
    try:
        return urlsplit(earlier.redirect_uri if earlier is not None else "").port or 0
    except ValueError:
        return 0


# -------------------------------------------------------------------------------------------------------- the redirect


@frozen
class RedirectAnswer:
    """The parameters of a redirect from an authorization server; None for a missing one."""

    code: str | None = None
    state: str | None = None
    issuer: str | None = None
    error: str | None = None

    @classmethod
    def parse(cls, address: str) -> RedirectAnswer | None:
        """The answer in an address; None if it has neither a code nor an error. A repeated parameter counts as
        missing."""
        try:
            found = parse_qs(urlsplit(address).query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return None

        def only(name: str) -> str | None:
            values = found.get(name, ())
            return values[0] if len(values) == 1 else None

        answer = cls(only("code"), only("state"), only("iss"), only("error"))
        return answer if answer.code is not None or answer.error is not None else None


class RedirectListener:
    """Listens on 127.0.0.1 for the browser, while it is entered as an async context manager. It accepts one answer and
    shows a fixed page, which contains nothing of the request."""

    def __init__(self, port: int = 0, *, exact: bool = False) -> None:
        """`exact`: fail if the port is in use, instead of taking any free one."""
        self._port = port
        self._exact = exact
        self._answer: asyncio.Future[RedirectAnswer] = asyncio.get_running_loop().create_future()
        self._requests: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._handle_connection, _HOST, self._port, limit=_MAX_HEAD)
        except OSError:
            if self._exact:
                raise McpFailure(f"Port {self._port}, which the sign-in needs, is in use on this machine.") from None
            self._server = await asyncio.start_server(self._handle_connection, _HOST, 0, limit=_MAX_HEAD)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        await cancel_and_wait(set(self._requests))
        await self._server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}{_PATH}"

    async def answer(self) -> RedirectAnswer:
        """Wait for the answer."""
        return await asyncio.shield(self._answer)

    def accept(self, answer: RedirectAnswer) -> None:
        """Use this answer, unless there is one already."""
        if not self._answer.done():
            self._answer.set_result(answer)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._respond(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._requests.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _blank, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        answer = RedirectAnswer.parse(target) if method == "GET" and target.partition("?")[0] == _PATH else None
        # 404 also for the icon that browsers ask for.
        status, page = ("404 Not Found", b"") if answer is None or self._answer.done() else ("200 OK", _PAGE)
        writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n".encode() + page)
        await writer.drain()
        if answer is not None:
            # Last: whoever waits for it closes the listener, and with it this connection.
            self.accept(answer)
