"""Register agentcli as a client of an authorization server: configured, by a metadata document, or dynamically."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.configuration import OAuthConfig
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.auth_requests import AuthRequests
from agentcli.mcp.oauth.discovery import AuthorizationServer
from agentcli.mcp.oauth.token_grant import RegisteredClient, TokenGrant

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthMetadata

_SECRET_METHODS = ("client_secret_basic", "client_secret_post")
_CREATED = (200, 201)
_MAX_TIME = 10**12
"""As a Unix time; a larger number may not fit into a float."""


def configured_client(config: OAuthConfig, server: AuthorizationServer, redirect_uri: str) -> RegisteredClient | None:
    """The client that the configuration names; None if there is none that this server accepts."""
    if config.client_id:
        method = _secret_method(server.metadata) if config.client_secret else "none"
        return RegisteredClient(config.client_id, config.client_secret, method, "configured", redirect_uri)
    if config.client_metadata_url and server.metadata.client_id_metadata_document_supported:
        return RegisteredClient(config.client_metadata_url, source="document", redirect_uri=redirect_uri)
    return None


def earlier_client(earlier: TokenGrant | None, issuer: str, redirect_uri: str) -> RegisteredClient | None:
    """A previously registered client, if still valid for this server and this redirect."""
    client = earlier.client if earlier is not None and earlier.issuer == issuer else None
    if client is None or client.source != "dynamic" or client.redirect_uri != redirect_uri:
        return None
    return None if client.expires_at and time.time() >= client.expires_at else client


async def register(
    requests: AuthRequests, server: AuthorizationServer, redirect_uri: str, scope: str
) -> RegisteredClient:
    """Register dynamically (RFC 7591). Raises `McpFailure`."""
    from mcp.shared.auth import OAuthClientInformationFull
    from pydantic import ValidationError

    issuer = plain_line(server.issuer, 200)
    if server.metadata.registration_endpoint is None:
        raise McpFailure(f"{issuer} does not register clients automatically. Set `oauth.clientId` for this server.")
    wanted = {
        "client_name": "agentcli",
        "software_id": "agentcli",
        "software_version": __version__,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "token_endpoint_auth_method": _method_to_ask_for(server.metadata),
    }
    if scope:
        wanted["scope"] = scope
    response = await requests.post_json(str(server.metadata.registration_endpoint), wanted)
    if response.status_code not in _CREATED:
        raise McpFailure(
            f"{issuer} refused to register this program (HTTP {response.status_code}). "
            "Set `oauth.clientId` for this server."
        )
    try:
        made = OAuthClientInformationFull.model_validate_json(response.content)
    except ValidationError:
        raise McpFailure(f"{issuer} sent a registration that is not valid.") from None
    method = made.token_endpoint_auth_method or ("client_secret_basic" if made.client_secret else "none")
    if method not in ("none", *_SECRET_METHODS) or (method != "none" and not made.client_secret):
        raise McpFailure(f"{issuer} registered this program for {plain_line(method, 80)}, which it cannot use.")
    secret = (made.client_secret or "") if method != "none" else ""
    expires_at = float(min(made.client_secret_expires_at or 0, _MAX_TIME))
    return RegisteredClient(made.client_id, secret, method, "dynamic", redirect_uri, expires_at)


def _secret_method(metadata: OAuthMetadata) -> str:
    offered = metadata.token_endpoint_auth_methods_supported or _SECRET_METHODS
    return next((method for method in _SECRET_METHODS if method in offered), _SECRET_METHODS[0])


def _method_to_ask_for(metadata: OAuthMetadata) -> str:
    """The authentication method to request: `none` if offered, because a program on a user's machine keeps no
    secret."""
    offered = metadata.token_endpoint_auth_methods_supported
    return "none" if offered is None or "none" in offered else _secret_method(metadata)
