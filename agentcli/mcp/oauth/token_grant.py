"""The stored result of a sign-in: the registered client, its tokens, and where to renew them."""

from __future__ import annotations

import json
from dataclasses import asdict, field, fields, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from agentcli.core.addresses import parse_web_address
from agentcli.core.frozen import frozen

ClientSource = Literal["configured", "document", "dynamic"]
"""Registered by the user, by a client ID metadata document, or dynamically by agentcli."""


@frozen
class RegisteredClient:
    client_id: str
    secret: str = field(default="", repr=False)
    auth_method: str = "none"
    """How it authenticates at the token endpoint: `none`, `client_secret_basic` or `client_secret_post`."""
    source: ClientSource = "dynamic"
    redirect_uri: str = ""
    """The redirect URI that was registered."""
    expires_at: float = 0
    """When the secret expires, as a Unix time; 0: never."""


@frozen
class TokenGrant:
    """Client and tokens of one server. Without tokens it is only a registration, kept for the next sign-in."""

    name: str
    """The server's name in the configuration."""
    address: str
    """The server's origin and path. The tokens are only for it."""
    issuer: str
    client: RegisteredClient
    token_endpoint: str
    revocation_endpoint: str = ""
    resource: str = ""
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float = 0
    """When to renew the access token, as a Unix time; 0: unknown."""
    scope: str = ""

    def is_expired(self, now: float) -> bool:
        return bool(self.expires_at) and now >= self.expires_at

    def without_tokens(self) -> TokenGrant:
        return replace(self, access_token="", refresh_token="", expires_at=0)

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> TokenGrant | None:
        """Parse a stored grant; None if it is invalid."""
        try:
            values = json.loads(text)
            client = RegisteredClient(**_typed(RegisteredClient, values.pop("client")))
            return cls(client=client, **_typed(cls, values))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None


def _typed(kind: type[RegisteredClient | TokenGrant], values: dict[str, Any]) -> dict[str, Any]:
    """The known fields. Raises TypeError for a value of another type."""
    known = {each.name: float if each.name == "expires_at" else str for each in fields(kind)}
    found = {name: value for name, value in values.items() if name in known}
    for name, value in found.items():
        if not isinstance(value, (int, float) if known[name] is float else str):
            raise TypeError(name)
    return found


def origin_of(url: str) -> str:
    """Scheme, host and port in normalised form; empty if it is not a web URL."""
    parsed = parse_web_address(url)
    return "" if isinstance(parsed, str) else f"{parsed.scheme}://{parsed.shown_host}:{parsed.port}"


def address_of(url: str) -> str:
    """Origin and path of a server, to which tokens are bound; empty if it is not a web URL."""
    origin = origin_of(url)
    return origin and origin + (urlsplit(url).path or "/")
