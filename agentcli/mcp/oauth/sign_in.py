"""One run of the authorization code flow, from discovery to tokens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.configuration import ServerConfig
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.auth_requests import AuthRequests
from agentcli.mcp.oauth.discovery import AuthChallenge, AuthorizationServer, discover
from agentcli.mcp.oauth.redirect import RedirectAnswer, RedirectListener
from agentcli.mcp.oauth.registration import configured_client, earlier_client, register
from agentcli.mcp.oauth.token_grant import RegisteredClient, TokenGrant, address_of
from agentcli.mcp.oauth.token_requests import exchange

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import PKCEParameters

WAIT_SECONDS = 300.0


@frozen
class SignInRequest:
    """`config`: of the server. `earlier`: stored grant of the last sign-in. `scope`: needed besides the configured
    one."""

    config: ServerConfig
    challenge: AuthChallenge
    earlier: TokenGrant | None = None
    scope: str = ""


class SignInFlow:
    def __init__(self, requests: AuthRequests, request: SignInRequest) -> None:
        self._requests = requests
        self._request = request
        self._state = secrets.token_urlsafe(32)
        self._listener: RedirectListener | None = None

    async def run(self, show: Callable[[str], Awaitable[None]]) -> TokenGrant:
        """Run the flow. `show` gets the URL that the user has to visit. Raises `McpFailure`."""
        from mcp.client.auth.oauth2 import PKCEParameters

        config, earlier = self._request.config, self._request.earlier
        server = await discover(self._requests, config.url, self._request.challenge, config.oauth.metadata_url)
        granted = earlier.scope if earlier is not None and self._request.scope else ""
        scope = server.scope(
            " ".join(config.oauth.scopes), self._request.scope or self._request.challenge.scope, granted
        )
        pkce = PKCEParameters.generate()
        port = config.oauth.callback_port
        async with RedirectListener(port or _earlier_port(earlier), exact=bool(port)) as listener:
            client = await self._client(server, listener.redirect_uri, scope)
            address = self._address(server, client, pkce, scope)
            await self._requests.check(str(server.metadata.authorization_endpoint))
            self._listener = listener
            try:
                await show(address)
                answer = await self._answer(listener)
            finally:
                self._listener = None
        code = self._checked(answer, server)
        grant = TokenGrant(
            name=config.name,
            address=address_of(config.url),
            issuer=server.issuer,
            client=client,
            token_endpoint=str(server.metadata.token_endpoint),
            revocation_endpoint=str(server.metadata.revocation_endpoint or ""),
            resource=server.resource,
            scope=scope,
        )
        return await exchange(self._requests, grant, code, pkce.code_verifier)

    def paste(self, text: str) -> None:
        """Accept the URL of the last page, or the code in it. Raises `McpFailure` if it is neither."""
        text = text.strip()
        if self._listener is None:
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

    # ------------------------------------------------------------------------------------------------------- steps

    async def _client(self, server: AuthorizationServer, redirect_uri: str, scope: str) -> RegisteredClient:
        earlier = self._request.earlier
        if self._request.config.oauth.client_secret and earlier is not None and earlier.issuer != server.issuer:
            raise McpFailure(
                f"Sign-in was refused: the server now names the authorization server {plain_line(server.issuer, 200)}, "
                f"and your client secret is for {plain_line(earlier.issuer, 200)}. If that is right, sign out first."
            )
        return (
            configured_client(self._request.config.oauth, server, redirect_uri)
            or earlier_client(earlier, server.issuer, redirect_uri)
            or await register(self._requests, server, redirect_uri, scope)
        )

    def _address(self, server: AuthorizationServer, client: RegisteredClient, pkce: PKCEParameters, scope: str) -> str:
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": client.redirect_uri,
            "state": self._state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "resource": server.resource,
        }
        if scope:
            query["scope"] = scope
        if "offline_access" in scope.split():
            # OpenID Connect grants this scope only after asking the user.
            query["prompt"] = "consent"
        endpoint = str(server.metadata.authorization_endpoint).partition("#")[0]
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def _answer(self, listener: RedirectListener) -> RedirectAnswer:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await listener.answer()
        except TimeoutError:
            raise McpFailure(f"The sign-in timed out after {WAIT_SECONDS / 60:g} minutes.") from None

    def _is_ours(self, answer: RedirectAnswer) -> bool:
        return answer.state is not None and secrets.compare_digest(answer.state.encode(), self._state.encode())

    def _checked(self, answer: RedirectAnswer, server: AuthorizationServer) -> str:
        """The code of a response, after checking that it belongs to this sign-in and this authorization server."""
        from mcp.client.auth.exceptions import OAuthFlowError
        from mcp.client.auth.utils import validate_authorization_response_iss

        if not self._is_ours(answer):
            raise McpFailure("Sign-in was refused: the answer belongs to another sign-in (wrong state).")
        try:
            validate_authorization_response_iss(answer.issuer, server.metadata)
        except OAuthFlowError:
            raise McpFailure(
                "Sign-in was refused: the answer does not name the authorization server (wrong iss). "
                "If you pasted a code, paste the whole address."
            ) from None
        if answer.error is not None or not answer.code:
            raise McpFailure(f"The authorization server refused: {plain_line(answer.error or 'no code', 80)}.")
        return answer.code


def _earlier_port(earlier: TokenGrant | None) -> int:
    """The port that the client was registered with: many servers accept no other one."""
    if earlier is None:
        return 0
    try:
        return urlsplit(earlier.client.redirect_uri).port or 0
    except ValueError:
        return 0
