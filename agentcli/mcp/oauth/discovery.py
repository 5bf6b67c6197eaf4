"""Discovery from a server's 401 to the metadata of its authorization server (RFC 9728, RFC 8414, OpenID Connect)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.oauth.auth_requests import AuthRequests, UnreachableFailure

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")
_OFFLINE = "offline_access"


@frozen
class AuthChallenge:
    """Contents of a server's `WWW-Authenticate` header."""

    metadata_url: str = ""
    scope: str = ""
    lacks_scope: bool = False
    """Whether the token is valid, but not for this request."""

    @classmethod
    def of(cls, response: httpx2.Response) -> AuthChallenge:
        from mcp.client.auth.utils import extract_field_from_www_auth

        def field(name: str) -> str:
            return extract_field_from_www_auth(response, name) or ""

        lacks_scope = response.status_code == 403 and field("error") == "insufficient_scope"
        return cls(field("resource_metadata"), field("scope"), lacks_scope)


@frozen
class AuthorizationServer:
    metadata: OAuthMetadata
    resource: str
    """The server's identifier, for which tokens are requested."""
    resource_scopes: str = ""
    """Scopes that the server itself lists."""

    @property
    def issuer(self) -> str:
        return str(self.metadata.issuer)

    def scope(self, configured: str, challenged: str, granted: str) -> str:
        """The scope to request: the configured or challenged one, and what was granted before."""
        from mcp.client.auth.utils import union_scopes

        basis = union_scopes(configured, challenged) or self.resource_scopes
        chosen = union_scopes(granted, basis) or ""
        offered = self.metadata.scopes_supported or []
        # Many servers issue refresh tokens only for this scope.
        return f"{chosen} {_OFFLINE}" if chosen and _OFFLINE in offered and _OFFLINE not in chosen.split() else chosen


async def discover(
    requests: AuthRequests, server_url: str, challenge: AuthChallenge, metadata_url: str = ""
) -> AuthorizationServer:
    """Find the authorization server. `metadata_url`: of its metadata, if configured. Raises `McpFailure`."""
    from mcp.shared.auth_utils import resource_url_from_server_url

    resource = await _resource_metadata(requests, server_url, challenge.metadata_url)
    named = str(resource.authorization_servers[0]) if resource is not None else ""
    metadata = await _server_metadata(requests, named or _origin(server_url), metadata_url)
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise McpFailure(f"{_shown(metadata.issuer)} does not offer PKCE (S256), which signing in needs.")
    return AuthorizationServer(
        metadata,
        str(resource.resource) if resource is not None else resource_url_from_server_url(server_url),
        " ".join(resource.scopes_supported or ()) if resource is not None else "",
    )


async def _resource_metadata(
    requests: AuthRequests, server_url: str, challenged_url: str
) -> ProtectedResourceMetadata | None:
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
    from mcp.shared.auth import ProtectedResourceMetadata
    from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

    urls = build_protected_resource_metadata_discovery_urls(challenged_url or None, server_url)
    async for url, found in _documents(requests, urls, ProtectedResourceMetadata):
        if not check_resource_allowed(resource_url_from_server_url(server_url), str(found.resource)):
            raise McpFailure(f"Sign-in was refused: {_shown(url)} describes another server, {_shown(found.resource)}.")
        return found
    return None


async def _server_metadata(requests: AuthRequests, issuer: str, configured_url: str) -> OAuthMetadata:
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls, issuers_match
    from mcp.shared.auth import OAuthMetadata

    urls = [configured_url] if configured_url else build_oauth_authorization_server_metadata_discovery_urls(issuer, "")
    async for url, found in _documents(requests, urls, OAuthMetadata):
        if not configured_url and not issuers_match(str(found.issuer), issuer):
            raise McpFailure(f"Sign-in was refused: {_shown(url)} describes another issuer, {_shown(found.issuer)}.")
        return found
    raise McpFailure(f"{_shown(configured_url or issuer)} offers no sign-in: no OAuth metadata was found there.")


async def _documents(
    requests: AuthRequests, urls: Iterable[str], model: type[M]
) -> AsyncGenerator[tuple[str, M], None]:
    """The documents of this kind found at the URLs, in order."""
    from pydantic import ValidationError

    for url in urls:
        response = await requests.get(url)
        _raise_if_broken(response, url)
        if response.status_code != 200:
            continue
        try:
            found = model.model_validate_json(response.content)
        except ValidationError:
            continue
        yield url, found


def _raise_if_broken(response: httpx2.Response, url: str) -> None:
    """Raise for a server error: it does not show whether there is metadata, so no other URL is tried."""
    if response.status_code >= 500 or response.status_code == 429:
        raise UnreachableFailure(f"{_shown(url)} answered with HTTP {response.status_code}. Try again later.")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _shown(url: object) -> str:
    return plain_line(str(url), 200)
