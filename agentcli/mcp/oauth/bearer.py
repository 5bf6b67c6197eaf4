"""Adds tokens to the requests of a connection. Imported only for a connection, because it needs `httpx2`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any

import httpx2

from agentcli.mcp.oauth.auth_requests import UnreachableFailure
from agentcli.mcp.oauth.discovery import AuthChallenge
from agentcli.mcp.own_task import in_own_task

if TYPE_CHECKING:
    from agentcli.mcp.oauth.authorization import ServerAuthorization

_NAME = "Authorization"


class BearerAuth(httpx2.Auth):
    """Sends the token, renews it once when it is refused, and never waits for the user."""

    def __init__(self, authorization: ServerAuthorization) -> None:
        self._authorization = authorization

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if _NAME in request.headers:
            yield request
            return
        token = await _reached(self._authorization.token_for(str(request.url)), request)
        if token:
            request.headers[_NAME] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED and token:
            renewed = await _reached(self._authorization.renewed(token), request)
            if renewed:
                request.headers[_NAME] = f"Bearer {renewed}"
                response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            self._authorization.refuse(response, token)
        challenge = AuthChallenge.of(response)
        if challenge.lacks_scope:
            self._authorization.note_missing_scope(challenge)


class NoToken(httpx2.TransportError):
    """The authorization server cannot be reached; the text says why."""


async def _reached(token: Coroutine[Any, Any, str], request: httpx2.Request) -> str:
    """The token. An unreachable authorization server is treated like an unreachable server: reconnecting may help."""
    try:
        return await in_own_task(token)
    except UnreachableFailure as failure:
        raise NoToken(str(failure), request=request) from None
