"""Create the transport for an MCP server: stdio, HTTP or SSE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.config.trust_effects import variables_in
from agentcli.core.files.bounded_json import parse_json
from agentcli.core.frozen import frozen
from agentcli.core.processes.own_programs import run_helper
from agentcli.mcp.limits import ServerLimits
from agentcli.mcp.link import ServerLink
from agentcli.mcp.replies.answers import AnswerReader
from agentcli.mcp.server_config import ServerConfig
from agentcli.mcp.transports.server_program import server_command, server_environment
from agentcli.mcp.transports.stdio import StdioTransport
from agentcli.mcp.transports.streams import ReadTransport

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import Transport


@frozen
class ServerSurroundings:
    """The parts of the session that servers use."""

    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's environment; a server gets a safe part of it."""
    working_dirs: tuple[Path, ...] = ()
    state_dir: Path | None = None
    """Folder for tokens and logs; None: nothing is stored."""
    opens_browser: bool = False
    """Whether the session is interactive, so that the user can sign in."""
    auth: Callable[[ServerConfig], httpx2.Auth | None] = lambda _config: None
    """Returns the authorization of requests to an HTTP server; called for each connection."""


async def transport_for(
    config: ServerConfig, around: ServerSurroundings, reader: AnswerReader, link: ServerLink, limits: ServerLimits
) -> Transport:
    """The transport, not entered yet. Raises `ValueError` or `OSError`."""
    inner: Any
    if config.kind == "stdio":
        dirs = around.working_dirs or (around.cwd,)
        command = server_command(
            config.command,
            config.args,
            cwd=around.cwd,
            environ=around.environ,
            given=config.env,
            working_dirs=dirs,
        )
        environ = server_environment(around.environ, config.env, dirs)
        inner = StdioTransport(command, around.cwd, environ, reader, link, limits)
    else:
        inner = await _http_transport(config, around, reader, link, limits)
    return ReadTransport(inner, reader, link)


async def _http_transport(
    config: ServerConfig, around: ServerSurroundings, reader: AnswerReader, link: ServerLink, limits: ServerLimits
) -> Any:
    from agentcli.mcp.transports.http_client import McpHttpClient

    headers = dict(config.headers)
    if config.headers_helper:
        dirs = around.working_dirs or (around.cwd,)
        headers |= await helper_headers(
            config.headers_helper,
            environ=_helper_environment(config, around.environ, dirs),
            working_dirs=dirs,
            seconds=limits.helper_seconds,
        )

    def client(*_ignored: object, **_too: object) -> McpHttpClient:
        return McpHttpClient(
            config.url,
            headers,
            around.auth(config),
            reader,
            link,
            limits,
            answers_elsewhere=config.kind == "sse",
        )

    if config.kind == "sse":
        from mcp.client.sse import sse_client

        return sse_client(config.url, httpx_client_factory=client)
    return _streamable(config.url, client(), limits)


async def helper_headers(
    command: str, *, environ: Mapping[str, str], working_dirs: Iterable[Path], seconds: float
) -> dict[str, str]:
    """Headers printed by a command of the configuration, such as a token that is valid for an hour.

    Raises `ValueError`, whose text never contains the output.
    """
    try:
        done = await run_helper(command, environ=environ, working_dirs=working_dirs, seconds=seconds)
    except TimeoutError:
        raise ValueError(f"headersHelper printed nothing within {seconds:g} seconds") from None
    except OSError as error:
        raise ValueError(f"headersHelper cannot be started: {error}") from None
    if done.code:
        raise ValueError(f"headersHelper failed (exit {done.code})")
    try:
        headers = parse_json(done.output)
    except ValueError:
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("headersHelper must print a JSON object of names and texts")
    return headers


def _helper_environment(config: ServerConfig, environ: Mapping[str, str], dirs: Sequence[Path]) -> Mapping[str, str]:
    """Environment of a headers helper. The user's own helper gets everything; one from a file in a repository gets no
    secrets except those that its text names as `${NAME}`, which the trust question shows."""
    if config.source not in ("project", "local"):
        return environ
    named = {name: environ[name] for name in variables_in(config.headers_helper) if name in environ}
    return server_environment(environ, named, dirs)


def _streamable(url: str, client: Any, limits: ServerLimits) -> Any:
    from contextlib import asynccontextmanager

    from mcp.client.streamable_http import streamable_http_client

    @asynccontextmanager
    async def opened() -> Any:
        opening = streamable_http_client(url, http_client=client, max_sse_event_size=limits.message_bytes)
        async with client, opening as streams:
            yield streams

    return opened()
