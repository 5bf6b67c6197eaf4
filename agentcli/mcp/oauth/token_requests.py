"""Exchange a code for tokens, refresh and revoke them. Error texts contain no token and no response."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.auth_requests import AuthRequests, UnreachableFailure
from agentcli.mcp.oauth.token_grant import RegisteredClient, TokenGrant

if TYPE_CHECKING:
    import httpx2

_IN_A_HEADER = re.compile(r"[\x21-\x7e]+")
_MOST_TOKEN = 16 * 1024
_MARGIN_SECONDS = 30.0
"""Tokens are renewed this much before they expire, or a tenth of their lifetime if that is less."""
_MAX_LIFETIME = 10**9
"""In seconds; a larger number may not fit into a float."""
_REFUSED = (400, 401, 403)


class RefusedFailure(McpFailure):
    """The authorization server refused a code, a token or the client."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """Error code such as `invalid_grant`; empty if there was none."""


async def exchange(requests: AuthRequests, grant: TokenGrant, code: str, verifier: str) -> TokenGrant:
    """Exchange an authorization code for tokens. Raises `McpFailure`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": grant.client.redirect_uri,
        "code_verifier": verifier,
    }
    return await _tokens(requests, grant, form)


async def refresh(requests: AuthRequests, grant: TokenGrant) -> TokenGrant:
    """Refresh tokens. Raises `RefusedFailure` if the user has to sign in again, another `McpFailure` if it may work
    later."""
    return await _tokens(requests, grant, {"grant_type": "refresh_token", "refresh_token": grant.refresh_token})


async def revoke(requests: AuthRequests, grant: TokenGrant) -> None:
    """Revoke both tokens (RFC 7009), if the server supports it. Raises `McpFailure`."""
    for token, kind in ((grant.refresh_token, "refresh_token"), (grant.access_token, "access_token")):
        if token and grant.revocation_endpoint:
            form, headers = _authenticated(grant.client, {"token": token, "token_type_hint": kind})
            response = await requests.post_form(grant.revocation_endpoint, form, headers)
            if response.status_code != 200:
                raise _failure(response, grant)


async def _tokens(requests: AuthRequests, grant: TokenGrant, form: dict[str, str]) -> TokenGrant:
    from mcp.shared.auth import OAuthToken
    from pydantic import ValidationError

    form, headers = _authenticated(grant.client, {**form, "resource": grant.resource})
    response = await requests.post_form(grant.token_endpoint, form, headers)
    if response.status_code not in (200, 201):
        raise _failure(response, grant)
    try:
        tokens = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        # Not chained: the error quotes the response.
        raise McpFailure(f"{_issuer(grant)} sent tokens that are not valid.") from None
    refresh_token = tokens.refresh_token or grant.refresh_token
    if not _IN_A_HEADER.fullmatch(tokens.access_token) or len(tokens.access_token) + len(refresh_token) > _MOST_TOKEN:
        raise McpFailure(f"{_issuer(grant)} sent tokens that are not valid.")
    expires_at = 0.0
    if tokens.expires_in is not None:
        lifetime = max(0, min(tokens.expires_in, _MAX_LIFETIME))
        expires_at = time.time() + lifetime - min(_MARGIN_SECONDS, lifetime / 10)
    return replace(
        grant,
        access_token=tokens.access_token,
        refresh_token=refresh_token,
        expires_at=expires_at,
        # An omitted scope is the requested one, or as before.
        scope=grant.scope if tokens.scope is None else tokens.scope,
    )


def _authenticated(client: RegisteredClient, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    sent = {**form, "client_id": client.client_id}
    if client.auth_method == "client_secret_basic":
        pair = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
        return sent, {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return ({**sent, "client_secret": client.secret} if client.auth_method == "client_secret_post" else sent), {}


def _failure(response: httpx2.Response, grant: TokenGrant) -> McpFailure:
    if response.status_code not in _REFUSED:
        return UnreachableFailure(f"{_issuer(grant)} answered with an error (HTTP {response.status_code}).")
    try:
        answer = response.json()
        code = answer.get("error") if isinstance(answer, dict) else None
    except ValueError:
        code = None
    # Only a code of the standard form: anything else may quote the request.
    known = code if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,60}", code) else ""
    return RefusedFailure(f"{_issuer(grant)} refused the sign-in ({known or f'HTTP {response.status_code}'}).", known)


def _issuer(grant: TokenGrant) -> str:
    return plain_line(grant.issuer, 200)
