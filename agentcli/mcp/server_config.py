"""Configuration of one MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentcli.core.frozen import frozen

TransportKind = Literal["stdio", "http", "sse"]
ServerSource = Literal["caller", "flag", "local", "project", "user"]
"""Where a server is configured, highest precedence first: a program that uses agentcli, `--mcp-config`, the user's own
servers for one project, the project's `.mcp.json`, the user's servers for all projects."""


@frozen
class OAuthConfig:
    """Settings for signing in. Empty ones are discovered."""

    client_id: str = ""
    """Id of a client that was registered beforehand."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Port of the redirect listener on this machine; 0: any."""
    metadata_url: str = ""
    """URL of the authorization server's metadata; empty: discovered."""
    client_metadata_url: str = ""
    """URL of a client ID metadata document, which serves as the client id where servers accept that."""


@frozen
class ServerConfig:
    """One server, with variables filled in."""

    name: str
    kind: TransportKind
    source: ServerSource = "user"
    origin: str = ""
    """The configuration file, for display."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_helper: str = ""
    """A shell command that prints additional headers as a JSON object."""
    timeout: float | None = None
    """Seconds for one call; None: the session's default."""
    always_load: bool = False
    """Whether its tools are never deferred."""
    oauth: OAuthConfig = OAuthConfig()
    disabled: bool = False
    """Whether it is not started unless the user enables it."""
    entry: Mapping[str, object] = field(default_factory=dict)
    """The entry as written, before variables were filled in, to show it without secrets. Empty for a caller's
    server."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that the entry refers to."""
