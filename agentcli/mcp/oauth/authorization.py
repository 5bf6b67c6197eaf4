"""One server's sign-in state: its tokens, their refresh, signing in and out.

A connection never starts a sign-in: it reports that one is needed (`refusal`), and the user decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentcli.core.aio import in_thread
from agentcli.core.errors import CredentialError
from agentcli.core.processes.browser import open_in_browser
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.auth_requests import AuthRequests, is_safe_for_tokens
from agentcli.mcp.oauth.discovery import AuthChallenge
from agentcli.mcp.oauth.sign_in import SignInFlow, SignInRequest
from agentcli.mcp.oauth.token_grant import TokenGrant, address_of, origin_of
from agentcli.mcp.oauth.token_requests import RefusedFailure, refresh, revoke
from agentcli.mcp.oauth.token_store import TokenStore

if TYPE_CHECKING:
    import httpx2

_NOT_AUTHORIZED = 401


class ServerAuthorization:
    """Sign-in state of one server. Methods that use the network or the store raise `McpFailure`."""

    def __init__(self, config: ServerConfig, around: ServerSurroundings, store: TokenStore | None = None) -> None:
        self.refusal = ""
        """Why the user has to sign in, as sentences; empty if no request was refused."""
        self._config = config
        self._around = around
        self._store = store or TokenStore(around.state_dir)
        self._address = address_of(config.url)
        self._origin = origin_of(config.url)
        self._grant: TokenGrant | None = None
        self._is_loaded = False
        self._refreshing = asyncio.Lock()
        self._challenge: AuthChallenge | None = None
        self._missing_scope = ""
        self._reports_scope = False
        self._flow: SignInFlow | None = None

    def begin(self) -> httpx2.Auth:
        """Authorization for a new connection. Reads the tokens again, as another process may have changed them."""
        from agentcli.mcp.http_transport import BearerAuth

        self.refusal = ""
        self._is_loaded = False
        return BearerAuth(self)

    # -------------------------------------------------------------------------------------------- used by connections

    async def token_for(self, url: str) -> str:
        """The token for a request to this URL, renewed if it has expired; empty if there is none for it."""
        if origin_of(url) != self._origin or not is_safe_for_tokens(url):
            return ""
        grant = await self._current()
        if grant is None or not grant.access_token:
            return ""
        return await self.renewed(grant.access_token) if grant.is_expired(time.time()) else grant.access_token

    async def renewed(self, used: str) -> str:
        """The token that replaces `used`, which has expired or was refused; empty if the user has to sign in again."""
        async with self._refreshing:
            grant = await self._current()
            if grant is None or grant.access_token != used:
                return grant.access_token if grant is not None else ""
            async with self._stored(), self._store.refreshing(self._config.name, self._address):
                self._grant = grant = await self._store.find(self._config.name, self._address)
                if grant is None or grant.access_token != used:
                    return grant.access_token if grant is not None else ""
                self._grant = await self._refreshed(grant)
                await self._store.keep(self._grant)
                return self._grant.access_token

    def refuse(self, response: httpx2.Response, used: str) -> None:
        """Record that the server refuses requests without a sign-in."""
        self._challenge = AuthChallenge.of(response)
        name = plain_line(self._config.name, 80)
        if not is_safe_for_tokens(self._config.url):
            self.refusal = f"{name} asks for a sign-in but its address is not encrypted (https). Change its url."
        else:
            why = "The sign-in is no longer accepted." if used or self._grant is not None else "Not signed in."
            self.refusal = f"{why} Sign in with /mcp, or run: agentcli mcp login {name}"

    def note_missing_scope(self, challenge: AuthChallenge) -> None:
        """Record that a request needs a scope that the sign-in did not grant."""
        from mcp.client.auth.utils import union_scopes

        self._challenge = challenge
        self._missing_scope = union_scopes(self._missing_scope, challenge.scope) or ""
        self._reports_scope = True

    def scope_problem(self) -> str:
        """Why the last request was refused, if for a missing scope; reported once."""
        if not self._reports_scope:
            return ""
        self._reports_scope = False
        scope = f" ({plain_line(self._missing_scope, 200)})" if self._missing_scope else ""
        name = plain_line(self._config.name, 80)
        return (
            f"This needs more rights than the sign-in gave{scope}. "
            f"Sign in again with /mcp, or run: agentcli mcp login {name}"
        )

    # ---------------------------------------------------------------------------------------------- started by the user

    async def sign_in(self, show: Callable[[str], None]) -> None:
        """Let the user sign in. `show` gets the URL, which is also opened if there is a browser."""
        if self._flow is not None:
            raise McpFailure(f"A sign-in to {self._config.name} is already waiting for the browser.")
        if not is_safe_for_tokens(self._config.url):
            raise McpFailure(f"{self._config.name} is not encrypted (https), so it gets no token. Change its url.")

        async def show_and_open(address: str) -> None:
            show(address)
            if self._around.opens_browser:
                await in_thread(open_in_browser, address, self._around.environ, self._around.working_dirs)

        await in_thread(_import_library)
        async with self._stored():
            earlier = await self._store.find(self._config.name, self._address)
        async with AuthRequests(self._config.url) as requests:
            challenge = self._challenge or await self._asked(requests)
            flow = SignInFlow(requests, SignInRequest(self._config, challenge, earlier, self._missing_scope))
            grant = await self._completed(flow, show_and_open)
        async with self._stored():
            await self._store.keep(grant)
        self._grant, self._is_loaded = grant, True
        self.refusal, self._missing_scope, self._challenge = "", "", None

    def paste(self, text: str) -> None:
        """Complete the waiting sign-in with the URL that the browser was redirected to, or the code in it."""
        if self._flow is None:
            raise McpFailure(f"No sign-in to {self._config.name} is waiting.")
        self._flow.paste(text)

    async def sign_out(self) -> str:
        """Delete the tokens here, and revoke them if the server supports it. Returns why they were not revoked, or
        ""."""
        async with self._stored():
            grant = await self._store.find(self._config.name, self._address)
            await self._store.forget(self._config.name, self._address)
        self._grant, self._is_loaded = None, True
        if grant is None:
            return ""
        try:
            async with AuthRequests(self._config.url) as requests:
                await revoke(requests, grant)
        except McpFailure as failure:
            return f"The tokens were deleted here but not revoked: {failure}"
        return ""

    # --------------------------------------------------------------------------------------------------------- helpers

    async def _completed(self, flow: SignInFlow, show: Callable[[str], Awaitable[None]]) -> TokenGrant:
        self._flow = flow
        try:
            return await flow.run(show)
        except RefusedFailure as refused:
            if refused.code == "invalid_client":
                # The server has forgotten the registration: the next sign-in registers again.
                async with self._stored():
                    await self._store.forget(self._config.name, self._address)
            raise
        finally:
            self._flow = None

    async def _current(self) -> TokenGrant | None:
        if not self._is_loaded:
            async with self._stored():
                self._grant = await self._store.find(self._config.name, self._address)
            self._is_loaded = True
        return self._grant

    async def _refreshed(self, grant: TokenGrant) -> TokenGrant:
        """The grant with new tokens; without tokens if the authorization server refuses or there is no refresh
        token."""
        if not grant.refresh_token:
            return grant.without_tokens()
        try:
            async with AuthRequests(self._config.url) as requests:
                return await refresh(requests, grant)
        except RefusedFailure:
            return grant.without_tokens()

    async def _asked(self, requests: AuthRequests) -> AuthChallenge:
        """The server's challenge to a request without a token."""
        response = await requests.challenge_of(self._config.url, "GET" if self._config.kind == "sse" else "POST")
        return AuthChallenge.of(response) if response.status_code == _NOT_AUTHORIZED else AuthChallenge()

    @asynccontextmanager
    async def _stored(self) -> AsyncIterator[None]:
        try:
            yield
        except CredentialError as error:
            raise McpFailure(str(error)) from None
        except OSError as error:
            raise McpFailure(f"The tokens cannot be stored: {error.strerror}.") from None


def authorization_for(config: ServerConfig, around: ServerSurroundings) -> ServerAuthorization | None:
    """The sign-in state of a server; None without HTTP, or if its configuration has its own credentials."""
    has_own = any(name.lower() == "authorization" for name in config.headers) or config.headers_helper
    return None if config.kind == "stdio" or has_own else ServerAuthorization(config, around)


def _import_library() -> None:
    import mcp.client.auth.oauth2
    import mcp.client.auth.utils  # noqa: F401
