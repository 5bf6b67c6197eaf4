"""ListMcpResourcesTool and ReadMcpResourceTool: the resources of MCP servers for the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentcli.agent.mcp.results import MOST_TOKENS, ResultLimits, content_output
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.text.plural import counted
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import McpContent
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import failure, object_schema

if TYPE_CHECKING:
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers

_SERVER = {"type": "string", "description": "The name of the server"}


class _ResourceTool:
    name: str

    def __init__(
        self,
        servers: McpServers,
        most_tokens: int = MOST_TOKENS,
        refuses: Callable[[str], bool] = lambda _server: False,
    ) -> None:
        """`refuses`: whether a permission rule denies everything of a server."""
        self._servers = servers
        self._most_tokens = most_tokens
        self._refuses = refuses

    def is_safe(self, input: Json) -> bool:
        return True

    def check(self, input: Json, context: ToolContext) -> str | None:
        wanted = input.get("server")
        if wanted is not None and self._servers.get(wanted) is not None and self._refuses(wanted):
            return f"A permission rule denies the MCP server {wanted}."
        if wanted is None or self._servers.get(wanted) is not None:
            return None
        names = ", ".join(server.name for server in self._servers)
        return f"There is no MCP server called {plain_line(str(wanted), 80)!r}. The servers are: {names}."

    def _limits(self, context: ToolContext) -> ResultLimits:
        return ResultLimits(context.results_dir, self._most_tokens)


class ListMcpResources(_ResourceTool):
    name = "ListMcpResourcesTool"
    description = "List the resources of MCP servers, with their URIs for ReadMcpResourceTool."
    input_schema = object_schema([], {"server": {**_SERVER, "description": "Only of this server"}})

    def title(self, input: Json) -> str:
        return plain_line(f"List resources of {input.get('server') or 'all MCP servers'}")

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        # The servers have listed them already.
        return (Need("none", str(input.get("server", ""))),)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        wanted = input.get("server")
        servers = [
            server for server in self._servers if wanted in (None, server.name) and not self._refuses(server.name)
        ]
        lines = [line for server in servers for line in _resource_lines(server)]
        text = "\n".join(lines) or "There are no resources now."
        output = await content_output((McpContent("text", text=text),), self._limits(context))
        yield Output(output.content, summary=counted(len(lines), "resource"), display=output.display)


class ReadMcpResource(_ResourceTool):
    name = "ReadMcpResourceTool"
    description = "Read a resource of an MCP server by its URI."
    input_schema = object_schema(
        ["server", "uri"], {"server": _SERVER, "uri": {"type": "string", "minLength": 1, "description": "Its URI"}}
    )

    def title(self, input: Json) -> str:
        return plain_line(f"{input.get('server', '')}: read {input.get('uri', '')}")

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("other", f"{input.get('server', '')}:{input.get('uri', '')}", is_declared_read_only=True),)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        server = self._servers.get(input["server"])
        if server is None:
            yield failure(f"There is no MCP server called {plain_line(input['server'], 80)!r}.")
            return
        try:
            content = await server.read(input["uri"], signal)
        except McpFailure as error:
            yield failure(f"The resource could not be read. {plain_text(str(error))[:4_000]}")
            return
        except Aborted:
            yield failure("Reading the resource was stopped.", "stopped")
            return
        yield await content_output(content, self._limits(context))


def _resource_lines(server: McpServer) -> Iterator[str]:
    offers = server.offers
    for found in offers.resources:
        about = ", ".join(plain_line(text) for text in (found.name, found.mime_type, found.description) if text)
        yield f"{server.name}: {plain_line(found.uri, 2_000)}{f' ({about})' if about else ''}"
    for template in offers.templates:
        about = ", ".join(plain_line(text) for text in (template.name, template.description) if text)
        yield f"{server.name}: template {plain_line(template.uri_template, 2_000)}{f' ({about})' if about else ''}"
