"""MCP servers without a process: they offer and answer what a test tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import McpContent, McpResult, ResourceOffer, ServerOffers, ServerRequests, ToolOffer
from agentcli.mcp.server import McpServer, OnProgress, ServerState
from agentcli.mcp.servers import McpServers

Answer = Callable[[str, Json, OnProgress], Awaitable[McpResult]]


def text_result(text: str, **rest: object) -> McpResult:
    return McpResult((McpContent("text", text=text),), **rest)  # type: ignore[arg-type]


def tool_offer(name: str, description: str = "", read_only: bool = False, **properties: str) -> ToolOffer:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": fields}
    return ToolOffer(name, description or f"Does {name}", input_schema=schema, read_only=read_only)


class FakeServer(McpServer):
    """Not connected until `connect`."""

    def __init__(self, name: str, *tools: ToolOffer, always_load: bool = False, **offers: object) -> None:
        config = ServerConfig(name, "stdio", command="none", always_load=always_load)
        super().__init__(config, ServerSurroundings(Path("/")), ServerRequests())
        self.next_offers = ServerOffers(name=name, tools=tools, **offers)  # type: ignore[arg-type]
        self.calls: list[tuple[str, Json]] = []
        self.answer: Answer | None = None
        self.contents: dict[str, tuple[McpContent, ...]] = {}

    def start(self) -> None:
        if self.state == "waiting":
            self._set("connecting")

    def connect(self, *tools: ToolOffer) -> None:
        """Be connected, with other tools if some are given."""
        if tools:
            self.next_offers = ServerOffers(name=self.name, tools=tools)
        self.offers = self.next_offers
        self._set("connected")

    def leave(self, state: ServerState = "failed", error: str = "it crashed") -> None:
        self._set(state, error)

    async def call(
        self,
        tool: str,
        arguments: Json,
        on_progress: OnProgress = lambda _progress: None,
        signal: AbortSignal | None = None,
    ) -> McpResult:
        if self.state != "connected":
            self._require_connection()
        self.calls.append((tool, arguments))
        if self.answer is None:
            return text_result(f"{tool} was called")
        work = self.answer(tool, arguments, on_progress)
        return await (work if signal is None else signal.run(work))

    async def read(self, uri: str, signal: AbortSignal | None = None) -> tuple[McpContent, ...]:
        if self.state != "connected":
            self._require_connection()
        return self.contents[uri]


def fake_servers(*servers: FakeServer) -> McpServers:
    found = McpServers((), ServerSurroundings(Path("/")), ServerRequests())
    for server in servers:
        server._on_change = found._note_change
        found._servers[server.name] = server
    return found


def resources(*uris: str) -> tuple[ResourceOffer, ...]:
    return tuple(ResourceOffer(uri, name=uri.rpartition("/")[2], mime_type="text/plain") for uri in uris)
