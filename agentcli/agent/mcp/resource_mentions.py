"""Resources of MCP servers that a prompt names with `@server:uri`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import failure

if TYPE_CHECKING:
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers

CONNECT_SECONDS = 15.0
"""Timeout for a server that is still connecting when its resource is mentioned."""


@frozen
class ResourceMention:
    typed: str
    server: McpServer
    uri: str

    @property
    def name(self) -> str:
        return plain_line(f"{self.server.name}:{self.uri}", 300)


def find_resource(spellings: Iterable[str], servers: McpServers) -> ResourceMention | None:
    """The resource that one of these spellings names: the first that a server lists, else the last (the shortest) with
    the name of a server before its colon."""
    found: list[ResourceMention] = []
    for spelling in spellings:
        name, separator, uri = spelling.partition(":")
        server = servers.get(name) if separator and uri else None
        if server is not None:
            found.append(ResourceMention(f"@{spelling}", server, uri))
    listed = (each for each in found if any(each.uri == one.uri for one in each.server.offers.resources))
    return next(listed, found[-1] if found else None)


async def read_resource(mention: ResourceMention, context: ToolContext) -> Output:
    """The resource's content for the model. A failure is an output too."""
    from agentcli.agent.mcp.results import ResultLimits, content_output
    from agentcli.mcp.connection import McpFailure

    await mention.server.settle(CONNECT_SECONDS)
    try:
        content = await mention.server.read(mention.uri)
    except McpFailure as error:
        return failure(plain_line(str(error), 400))
    return await content_output(content, ResultLimits(context.results_dir))
