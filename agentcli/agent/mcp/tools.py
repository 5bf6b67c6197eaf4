"""Tools and resources of MCP servers for the model, and resources that a prompt names with `@server:uri`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentcli.agent.mcp.results import MAX_TOKENS, ResultLimits, content_output, output_of
from agentcli.core.aio import Aborted, AbortSignal, Merge
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import TOOL_VERSION, Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import REFUSED_AT_TOP, CallProgress, McpContent, ToolOffer
from agentcli.tools.base import Output, Progress, ToolContext, ToolRun, failure, object_schema

if TYPE_CHECKING:
    from agentcli.mcp.server import McpServer, OnProgress
    from agentcli.mcp.servers import McpServers


MAX_DESCRIPTION = 2_048
_MAX_VALUE = 80
_CONNECT_SECONDS = 30.0
"""Timeout for a server that is still connecting when its tool is called."""


class McpTool:
    shows_schema = True
    """Answer invalid input with the schema: the model may call the tool without having seen it."""

    def __init__(self, server: McpServer, offer: ToolOffer, name: str, most_tokens: int = MAX_TOKENS) -> None:
        """`name`: the one for the model. `most_tokens`: limit of a result, unless the tool has its own."""
        self.server = server
        self.offer = offer
        self.name = name
        self.description = describe(offer)
        self.input_schema = sendable_schema(offer.input_schema)
        self._most_tokens = most_tokens

    @property
    def _offer_now(self) -> ToolOffer | None:
        """What its server offers now, which may differ from what the model saw."""
        return next((one for one in self.server.offers.tools if one.name == self.offer.name), None)

    @property
    def validates_itself(self) -> bool:
        """Whether the server has changed the schema since, so that only the server can check an input."""
        return (self._offer_now or self.offer).input_schema != self.offer.input_schema

    def title(self, input: Json) -> str:
        values = ", ".join(f"{name}: {_show(value)}" for name, value in input.items())
        called = self.offer.title or self.offer.name
        return plain_line(f"{self.server.name}: {called}{f' ({values})' if values else ''}")

    def is_safe(self, input: Json) -> bool:
        return self.offer.read_only

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        # The server's claim to be read-only is not a permission.
        version = (self._offer_now or self.offer).version
        return (Need("other", f"{TOOL_VERSION}{version}", is_declared_read_only=self.offer.read_only),)

    def preview(self, input: Json, context: ToolContext) -> Json:
        """The server, the tool and the server's claims about it, for the permission question."""
        offer = self.offer
        claims = ["read-only"] if offer.read_only else []
        claims += ["destructive"] if offer.destructive and not offer.read_only else []
        claims += ["open world"] if offer.open_world else []
        about = {"server": self.server.name, "tool": offer.name, "description": plain_line(offer.description, 300)}
        return {"kind": "mcp", **about, "claims": claims}

    def check(self, input: Json, context: ToolContext) -> str | None:
        server, tool = self.server, self.offer.name
        if tool in server.disabled_tools:
            return f"The user has turned {self.name} off."
        if server.state == "connected" and self._offer_now is None:
            return f"The MCP server {server.name} no longer has the tool {plain_line(tool)}."
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        merge: Merge[Output | Progress] = Merge(depth=1)

        async def call() -> None:
            # Progress that comes faster than it is shown is left out.
            await merge.put(await self._call(input, context, signal, lambda news: merge.offer(_progress(news))))

        merge.start(call(), name=self.name)
        async with aclosing(merge) as items:
            async for item in items:
                yield item

    async def _call(self, input: Json, context: ToolContext, signal: AbortSignal, report: OnProgress) -> Output:
        limits = ResultLimits(context.results_dir, self._most_tokens, self.offer.max_result_chars)
        try:
            # In a resumed session the model knows the tools before their server is connected.
            await signal.run(self.server.wait_for_start(_CONNECT_SECONDS))
            return await output_of(await self.server.call(self.offer.name, input, report, signal), limits)
        except McpFailure as error:
            return failure(f"{self.name} failed. {plain_text(str(error))[:4_000]}")
        except Aborted:
            return failure(f"{self.name} was stopped before it ended.", "stopped")


def describe(offer: ToolOffer) -> str:
    """The description for the model, without control characters and of limited length."""
    text = plain_text(offer.description or offer.title).strip()
    if len(text) <= MAX_DESCRIPTION:
        return text
    return f"{text[: MAX_DESCRIPTION - 20].rstrip()} [… cut off]"


def sendable_schema(schema: Json) -> Json:
    """A server's schema in the form that the API accepts: an object at the top level, without alternatives."""
    kept = {key: value for key, value in schema.items() if key not in REFUSED_AT_TOP}
    return {**kept, "type": "object"}


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return plain_line(text, _MAX_VALUE)


def _progress(progress: CallProgress) -> Progress:
    done = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    text = plain_line(f"{progress.text} ({done})" if progress.text else done)
    return Progress(text, {"done": progress.done, "total": progress.total})


_SERVER = {"type": "string", "description": "The name of the server"}


class _ResourceTool:
    name: str
    needs_conversation = True

    def __init__(
        self,
        servers: McpServers,
        most_tokens: int = MAX_TOKENS,
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

    await mention.server.wait_for_start(CONNECT_SECONDS)
    try:
        content = await mention.server.read(mention.uri)
    except McpFailure as error:
        return failure(plain_line(str(error), 400))
    return await content_output(content, ResultLimits(context.results_dir))
