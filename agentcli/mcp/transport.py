"""The ways to reach an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.core.frozen import frozen
from agentcli.mcp.server_config import ServerConfig

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import Transport


@frozen
class ServerSurroundings:
    """What servers get of the session."""

    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's; a server gets a safe part of it."""
    working_dirs: tuple[Path, ...] = ()
    state_dir: Path | None = None
    """For tokens and logs; None: nothing is kept."""
    opens_browser: bool = False
    """Whether a person is there who can sign in."""


def transport_for(config: ServerConfig, around: ServerSurroundings, auth: httpx2.Auth | None = None) -> Transport:
    from mcp.client.sse import sse_client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    if config.kind == "stdio":
        parameters = StdioServerParameters(
            command=config.command, args=list(config.args), env=dict(config.env), cwd=around.cwd
        )
        return stdio_client(parameters)
    if config.kind == "sse":
        return sse_client(config.url, headers=dict(config.headers), auth=auth)
    client: Any = create_mcp_http_client(headers=dict(config.headers), auth=auth)
    return streamable_http_client(config.url, http_client=client)
