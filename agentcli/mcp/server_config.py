"""One configured MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentcli.core.frozen import frozen

TransportKind = Literal["stdio", "http", "sse"]
ServerSource = Literal["caller", "flag", "local", "project", "user"]
"""Where a server comes from, the strongest first: a program that uses agentcli, `--mcp-config`, the user's own servers
for one project, the project's `.mcp.json`, the user's servers for all projects."""


@frozen
class OAuthConfig:
    """What a configuration says about signing in. Everything empty: all of it is discovered."""

    client_id: str = ""
    """Of a client that was registered beforehand."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Port of the redirect on this machine; 0: any."""
    metadata_url: str = ""
    """The authorization server's metadata; "": discovered."""
    client_metadata_url: str = ""
    """Address of a client ID metadata document, which is the client's ID where servers accept that."""


@frozen
class ServerConfig:
    """With variables filled in."""

    name: str
    kind: TransportKind
    source: ServerSource = "user"
    origin: str = ""
    """The file, for people."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_helper: str = ""
    """A shell command that prints further headers as a JSON object."""
    timeout: float | None = None
    """Seconds for one call; None: the session's."""
    always_load: bool = False
    """Never defer its tools."""
    oauth: OAuthConfig = OAuthConfig()
    disabled: bool = False
    """Not started unless the user enables it."""
    entry: Mapping[str, object] = field(default_factory=dict)
    """As written, before variables were filled in: for showing it without the secrets of the environment. Empty for a
    caller's server."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that the entry refers to."""
