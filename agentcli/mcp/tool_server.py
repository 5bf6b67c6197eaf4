"""agentcli's own tools as an MCP server over stdin and stdout (`agentcli mcp serve`).

Only the protocol; a `ToolHost` knows the tools and runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agentcli import __version__
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.mcp.link import run_outside_scopes
from agentcli.mcp.protocol import McpContent, McpResult

if TYPE_CHECKING:
    import mcp_types as types

INSTRUCTIONS = (
    "Tools of agentcli for files and commands in the folder where it was started. Its permission rules and its sandbox "
    "apply to every call; a call that they do not allow fails with the reason."
)


@frozen
class ServedTool:
    name: str
    description: str
    input_schema: Json
    read_only: bool = False


class ToolHost(Protocol):
    def tools(self) -> Sequence[ServedTool]: ...

    async def call(self, name: str, arguments: Json, client: ServedClient) -> McpResult:
        """Run a tool. Cancellation stops it."""
        ...


async def serve_stdio(host: ToolHost) -> None:
    """Serve until stdin ends."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server
    from mcp.server.stdio import stdio_server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=dict(tool.input_schema),
                annotations=types.ToolAnnotations(read_only_hint=tool.read_only),
            )
            for tool in host.tools()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        result = await run_outside_scopes(host.call(params.name, params.arguments or {}, ServedClient(context)))
        return types.CallToolResult(content=[_block(part) for part in result.content], is_error=result.is_error)

    server: Server[Any] = Server(
        "agentcli",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class ServedClient:
    """The program that calls our tools, during one call."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._reports = 0

    @property
    def can_ask(self) -> bool:
        """Whether the client's user can be asked."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        # The stateless protocol has no requests from the server.
        claims = self._context.session.client_capabilities
        is_modern = self._context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return claims is not None and claims.elicitation is not None and not is_modern

    async def report(self, text: str) -> None:
        """Report progress."""
        # The library sends nothing if the client did not request progress.
        self._reports += 1
        await self._context.session.report_progress(self._reports, None, text)

    async def choose(self, message: str, choices: Sequence[str]) -> str | None:
        """Let the client's user choose; None if they gave no answer."""
        field = {"type": "string", "title": "Answer", "enum": list(choices), "default": choices[-1]}
        schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        answer = await self._context.session.elicit_form(message, schema, self._context.request_id)
        chosen = (answer.content or {}).get("answer") if answer.action == "accept" else None
        return chosen if isinstance(chosen, str) and chosen in choices else None


def _block(part: McpContent) -> types.ContentBlock:
    import mcp_types as types

    if part.kind == "image":
        return types.ImageContent(type="image", data=part.data, mime_type=part.mime_type)
    return types.TextContent(type="text", text=part.text)
