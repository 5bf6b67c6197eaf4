"""MCP servers in a given state, without a process: their calls are answered from tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentcli.core.aio import AbortSignal
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import (
    McpContent,
    PromptArgument,
    PromptMessage,
    PromptOffer,
    ResourceOffer,
    ResourceTemplateOffer,
    ServerOffers,
    ServerRequests,
    ToolOffer,
)
from agentcli.mcp.server import McpServer, ServerState
from agentcli.mcp.servers import McpServers

OFFERS = ServerOffers(
    name="notes server",
    version="1.2",
    protocol="2025-06-18",
    instructions="Search before you write.",
    tools=(
        ToolOffer("find", "Find notes", input_schema={"type": "object", "properties": {"text": {"type": "string"}}}),
        ToolOffer("list", "List notes", read_only=True),
        ToolOffer("wipe", "Delete all notes", destructive=True),
    ),
    refused=(("bent", "its schema is not valid"),),
    resources=(
        ResourceOffer("note://one", "one", description="The first note", mime_type="text/plain", size=2_048),
        ResourceOffer("note://two", "two", title="Shopping list"),
    ),
    templates=(ResourceTemplateOffer("note://{name}", "any note"),),
    prompts=(
        PromptOffer("greet", "", "Greet somebody", (PromptArgument("name", "Whom", True), PromptArgument("mood"))),
        PromptOffer("plain", "", "No arguments"),
    ),
    completes=True,
)


class FakeServer(McpServer):
    """Starts at once, and answers from its tables."""

    connects_to: ServerState = "connected"
    signs = False
    offered = OFFERS

    def __init__(self, config: ServerConfig, servers: McpServers, state: ServerState = "connected") -> None:
        super().__init__(config, ServerSurroundings(Path("/")), ServerRequests(), on_change=servers._note_change)
        self.done: list[str] = []
        """What was asked of it, in order."""
        self.texts: dict[str, tuple[McpContent, ...]] = {}
        self.messages: tuple[PromptMessage, ...] = (PromptMessage("user", McpContent("text", "Greet Ada.")),)
        self.values: tuple[str, ...] = ("Ada", "Alan")
        self.become(state)

    def become(self, state: ServerState, error: str = "", retry_seconds: float | None = None) -> None:
        self._set(state, error, retry_seconds)
        if state == "connected":
            self.offers = self.offered

    def start(self) -> None:
        if self.state in ("waiting", "failed", "needs-auth"):
            self.done.append("start")
            self.become(self.connects_to, "" if self.connects_to == "connected" else "refused again")

    @property
    def signs_in(self) -> bool:
        return self.signs

    async def sign_in(self, show: Callable[[str], None]) -> None:
        show("https://auth.example/authorize?state=1")
        self.done.append("sign_in")
        self.become("connected")

    def paste(self, text: str) -> None:
        self.done.append(f"paste {text}")

    async def sign_out(self) -> None:
        self.done.append("sign_out")
        self.become("needs-auth")

    async def read(self, uri: str, signal: AbortSignal | None = None) -> tuple[McpContent, ...]:
        self.done.append(f"read {uri}")
        if uri not in self.texts:
            raise McpFailure(f"{self.name}: Resource not found")
        return self.texts[uri]

    async def prompt(
        self, name: str, arguments: Mapping[str, str], signal: AbortSignal | None = None
    ) -> tuple[PromptMessage, ...]:
        self.done.append(f"prompt {name} {dict(arguments)}")
        if name == "broken":
            raise McpFailure(f"{self.name}: no such prompt")
        return self.messages

    async def complete(
        self, kind: str, name: str, argument: str, value: str, others: Mapping[str, str]
    ) -> tuple[str, ...]:
        self.done.append(f"complete {kind} {name} {argument} {value} {dict(others)}")
        return tuple(each for each in self.values if each.lower().startswith(value.lower()))


def servers_with(*states: tuple[str, ServerState]) -> McpServers:
    """Servers of these names in these states; `failed` ones have an error."""
    servers = McpServers([], ServerSurroundings(Path("/")), ServerRequests())
    for name, state in states:
        server = FakeServer(ServerConfig(name, "stdio", command="notes-server", args=("--fast",)), servers)
        server.become(state, "exit code 1\nno module named notes" if state == "failed" else "")
        servers._servers[name] = server
    return servers


def fake(servers: McpServers, name: str) -> FakeServer:
    found = servers.get(name)
    assert isinstance(found, FakeServer)
    return found
