"""The tools of MCP servers that a conversation has: direct ones in every request, the others deferred.

Direct tools are those of servers that are connected when the first request is built, if their definitions together are
small enough. From then on they are part of the request's prefix and stay there, even when their server is gone. All
others are announced by name (`updates.py`) and loaded by ToolSearch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from agentcli.agent.mcp.results import MAX_TOKENS
from agentcli.agent.mcp.tools import ListMcpResources, McpTool, ReadMcpResource
from agentcli.agent.profile import LoadedTools
from agentcli.agent.subagents.specs import AgentSpec
from agentcli.context.estimate import schema_tokens
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import RESULT_DATA, Json, Message, Origin, UnknownBlock
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.ranking import RankedDocument, rank
from agentcli.mcp.protocol import PREFIX, ToolOffer, server_parts, tool_names
from agentcli.permissions.rules import Rule
from agentcli.providers.body import reference
from agentcli.tools.base import Output, Progress, Tool, ToolContext, ToolRun, object_schema
from agentcli.tools.registry import Registry

if TYPE_CHECKING:
    from agentcli.mcp.servers import McpServers


DIRECT_TOKENS = 10_000
SearchMode = Literal["own", "off"]
"""How deferred tools are found: with ToolSearch, or none are deferred."""


@frozen
class ServerToolSettings:
    search: SearchMode = "own"
    direct_tokens: int = DIRECT_TOKENS
    """Tokens that the definitions of all servers together may have without being deferred."""
    result_tokens: int = MAX_TOKENS


@frozen
class ServerToolLimits:
    """Limits on the session's tools for one conversation."""

    settings: ServerToolSettings = ServerToolSettings()
    allows: Callable[[str], bool] = lambda _name: True
    """Whether the conversation may have a tool with this name."""
    direct: tuple[Tool, ...] | None = None
    """The direct tools of the conversation that it continues; None: it has its own."""
    recorded: tuple[Json, ...] = ()
    """Records of the direct tools of a resumed session: they stay direct, so that its requests begin as before."""


class ServerTools:
    """The MCP tools of one conversation."""

    def __init__(
        self,
        servers: McpServers,
        limits: ServerToolLimits,
        refuses: Callable[[str], bool],
        loaded: LoadedTools,
        log: Sequence[Message] = (),
    ) -> None:
        """`refuses`: whether a rule removes a tool altogether. `log`: that of a resumed session."""
        self.servers = servers
        self.settings = limits.settings
        self._refuses = refuses
        self._allows: Callable[[str], bool] = lambda name: limits.allows(name) and not refuses(name)
        self._parts = server_parts(server.name for server in servers)
        self._loaded = loaded
        self._known: dict[str, Tool] = {}
        """All tools that were ever available, in their last version."""
        self._available: dict[str, Tool] = {}
        self._direct: dict[str, Tool] | None = None
        """None until the first request."""
        self._seen: object = None
        self._made: tuple[object, Registry, Registry] | None = None
        self._search: Tool = ToolSearch(self)
        self._offers_search = False
        """Never reset: the search tool is part of the prefix."""
        self.can_search = self.settings.search != "off" and not refuses(ToolSearch.name)
        if limits.direct is not None:
            self._direct = {tool.name: tool for tool in limits.direct}
            self._known |= self._direct
        elif limits.recorded or any(message.origin is Origin.REPLY for message in log):
            # Requests of an earlier process had these tools, or none.
            found = (self._restore_tool(record) for record in valid_records(limits.recorded))
            self._direct = {tool.name: tool for tool in found if tool is not None}
            self._known |= self._direct
        for record in list_loaded_records(log):
            self._loaded.definitions.setdefault(record["definition"]["name"], record["definition"])
            if (tool := self._restore_tool(record)) is not None:
                self._known.setdefault(tool.name, tool)

    # -------------------------------------------------------------------------------------------- for the conversation

    def registry(self, base: Registry) -> Registry:
        """The registry of the conversation: `base` plus the tools of servers."""
        self._look()
        state = (self._seen, len(self._known), self._direct is None)
        if self._made is None or self._made[0] != state or self._made[1] is not base:
            direct = self._direct or {}
            tools = {**self._known, **{name: self._as_sent(tool) for name, tool in direct.items()}}
            added = [tool for name, tool in tools.items() if base.get(name) is None]
            has_servers = any(server.state not in ("disabled", "unapproved") for server in self.servers)
            self._offers_search = self._offers_search or (self.can_search and has_servers)
            if self._offers_search and base.get(ToolSearch.name) is None:
                added.append(self._search)
            self._made = (state, base, base.adding(added, set(tools) - set(direct)))
        return self._made[2]

    def choose_direct_tools(self) -> bool:
        """Decide before a request which tools are direct; returns whether this was the first one."""
        self._look()
        first = self._direct is None
        if first:
            tokens = sum(schema_tokens(definition_of(tool)) for tool in self._available.values())
            are_few = not self.can_search or tokens <= self.settings.direct_tokens
            self._direct = {
                name: tool
                for name, tool in self._available.items()
                if are_few or (isinstance(tool, McpTool) and tool.server.config.always_load)
            }
        elif not self.can_search and self._direct is not None:
            self._direct |= {name: tool for name, tool in self._available.items() if name not in self._direct}
        self._made = None
        return first

    def deferred_by_server(self) -> dict[str, list[str]]:
        """The deferred tools of each connected server, by their own names."""
        self._look()
        direct = self._direct or {}
        found: dict[str, list[str]] = {server.name: [] for server in self.servers if server.state == "connected"}
        for name, tool in self._available.items():
            if name not in direct and isinstance(tool, McpTool):
                found[tool.server.name].append(name.split("__", 2)[-1])
        return {server: sorted(names) for server, names in found.items()}

    def part_of(self, server: str) -> str:
        """A server's name as it appears in the names of its tools."""
        return self._parts.get(server, server)

    @property
    def servers_with_direct_tools(self) -> frozenset[str]:
        return frozenset(tool.server.name for tool in (self._direct or {}).values() if isinstance(tool, McpTool))

    # -------------------------------------------------------------------------------------------------- for ToolSearch

    def available(self) -> Mapping[str, Tool]:
        """All tools that can be loaded, in their current version, by name."""
        self._look()
        direct = self._direct or {}
        changed = {
            name
            for name in direct
            if name in self._available and definition_of(self._available[name]) != self.find_loaded_definition(name)
        }
        return {name: tool for name, tool in self._available.items() if name not in direct or name in changed}

    def direct(self) -> Mapping[str, Tool]:
        """The tools that need not be loaded, by name."""
        return self._direct or {}

    def record(self, name: str) -> Json:
        """The stored record of a loaded tool."""
        return _record(self._known[name], self._loaded.definitions[name])

    def direct_records(self) -> list[Json]:
        """The stored records of the direct tools."""
        return [_record(tool, definition_of(tool)) for tool in (self._direct or {}).values()]

    def _as_sent(self, direct: Tool) -> Tool:
        """The server's current version of a tool if the model knows that definition, otherwise the version that was
        sent."""
        now = self._available.get(direct.name, direct)
        if definition_of(now) == definition_of(direct):
            return now
        if isinstance(now, McpTool) and isinstance(direct, McpTool) and now.server is not direct.server:
            # The server's configuration has changed, so it is another connection.
            return McpTool(now.server, direct.offer, direct.name, self.settings.result_tokens)
        return direct

    def load(self, names: Sequence[str]) -> None:
        """Include these tools from the next request on."""
        for name in names:
            self._loaded.definitions.setdefault(name, definition_of(self._known[name]))

    def pending(self) -> Sequence[str]:
        """Servers that are still connecting."""
        return [server.name for server in self.servers if server.state in ("waiting", "connecting")]

    def unavailable(self) -> Sequence[str]:
        """Servers that are not connected and will not be soon, each with the reason."""
        return [
            f"{server.name} ({server.state}{f': {reason}' if (reason := plain_line(server.error, 160)) else ''})"
            for server in self.servers
            if server.start_ended and server.state != "connected"
        ]

    def find_loaded_definition(self, name: str) -> Json | None:
        """The definition that the model has of a tool; None: it has none."""
        direct = (self._direct or {}).get(name)
        return self._loaded.definitions.get(name) if direct is None else definition_of(direct)

    # --------------------------------------------------------------------------------------------------------- servers

    def _look(self) -> None:
        """Update the available tools if the servers' offers have changed."""
        seen = tuple((server.state, server.offers, server.disabled_tools) for server in self.servers)
        if seen == self._seen:
            return
        self._seen = seen
        # Servers may appear during the session.
        self._parts = server_parts((server.name for server in self.servers), self._parts)
        self._available = {tool.name: tool for tool in self._make_tools() if self._allows(tool.name)}
        self._known |= self._available

    def _make_tools(self) -> Iterator[Tool]:
        has_resources = False
        for server in self.servers:
            if server.state != "connected":
                continue
            has_resources = has_resources or bool(server.offers.resources or server.offers.templates)
            names = tool_names(self._parts[server.name], (offer.name for offer in server.offers.tools))
            for offer in server.offers.tools:
                if offer.name not in server.disabled_tools:
                    yield McpTool(server, offer, names[offer.name], self.settings.result_tokens)
        if has_resources:
            yield self._resource_tool(ListMcpResources)
            yield self._resource_tool(ReadMcpResource)

    def _resource_tool(self, kind: type[ListMcpResources | ReadMcpResource]) -> Tool:
        return kind(self.servers, self.settings.result_tokens, self.refuses_server)

    def refuses_server(self, server: str) -> bool:
        """Whether a rule removes all tools of a server."""
        return self._refuses(f"{PREFIX}{self.part_of(server)}__")

    def _restore_tool(self, record: Json) -> Tool | None:
        """A tool of an earlier process, which can be called once its server offers it; None: not available in this
        session."""
        definition = record["definition"]
        name, server = definition["name"], self.servers.get(record["server"])
        if not self._allows(name):
            return None
        for kind in (ListMcpResources, ReadMcpResource):
            if name == kind.name:
                return self._resource_tool(kind)
        if server is None:
            return None
        offer = ToolOffer(record["tool"], definition["description"], input_schema=definition["input_schema"])
        return McpTool(server, offer, name, self.settings.result_tokens)


def definition_of(tool: Tool) -> Json:
    """A tool's definition as requests contain it."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


def _record(tool: Tool, definition: Json) -> Json:
    server, own = (tool.server.name, tool.offer.name) if isinstance(tool, McpTool) else ("", tool.name)
    return {"server": server, "tool": own, "definition": definition}


def list_loaded_records(log: Sequence[Message]) -> Iterator[Json]:
    """Records of the tools that search results in a log have loaded."""
    for message in log:
        for data in message.meta.get(RESULT_DATA, {}).values():
            yield from valid_records(data.get(LOADED_TOOLS, ()))


def valid_records(records: Iterable[Json]) -> Iterator[Json]:
    """Valid records only: session files are read leniently, and records of another form are skipped."""
    for record in records:
        definition = record.get("definition") if isinstance(record, dict) else None
        if (
            isinstance(definition, dict)
            and isinstance(definition.get("input_schema"), dict)
            and all(isinstance(definition.get(key), str) for key in ("name", "description"))
        ):
            yield {"server": str(record.get("server")), "tool": str(record.get("tool")), "definition": definition}


LOADED_TOOLS = "loaded_tools"
"""Key in `Output.data`: records of the tools that were loaded, see `ServerTools.record`."""
_SELECT = "select:"
_USUAL_RESULTS = 5
_MAX_RESULTS = 20
_CONNECT_SECONDS = 15.0
"""Timeout for servers that are still connecting when nothing is found."""
_DESCRIPTION = (
    "Load tools of MCP servers. Messages list deferred tools by name only; this finds them and loads their "
    "definitions, and then they can be called like any other tool. Search once for all that a task needs, and before "
    "you say that there is no tool for something: servers that are still connecting are waited for."
)


class ToolSearch:
    name = "ToolSearch"
    subject = "query"
    needs_conversation = True
    description = _DESCRIPTION
    input_schema = object_schema(
        ["query"],
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "description": "Words that describe the tool, or select:NAME,NAME for tools by name",
            },
            "max_results": {"type": "integer", "minimum": 1, "maximum": _MAX_RESULTS, "description": "Default 5"},
        },
    )

    def __init__(self, tools: ServerTools) -> None:
        self._tools = tools

    def title(self, input: Json) -> str:
        return plain_line(f"{self.name} {input.get('query', '')}").strip()

    def is_safe(self, input: Json) -> bool:
        return True

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("none", str(input.get("query", ""))),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        query, most = str(input["query"]).strip(), int(input.get("max_results", _USUAL_RESULTS))
        found = self._find(query, most)
        if not found and (pending := self._tools.pending()):
            yield Progress(plain_line(f"waiting for {', '.join(pending)}"))
            await signal.run(self._tools.servers.wait_for_start(_CONNECT_SECONDS))
            found = self._find(query, most)
        yield self._answer(query, found)

    def _find(self, query: str, most: int) -> list[str]:
        available = self._tools.available()
        if query.lower().startswith(_SELECT):
            wanted = [name.strip() for name in query[len(_SELECT) :].split(",") if name.strip()][:_MAX_RESULTS]
            everything = {**available, **self._tools.direct()}
            return list(dict.fromkeys(name for each in wanted for name in _meant(each, everything)))
        documents = [RankedDocument(tool.name, tool.description, tool.input_schema) for tool in available.values()]
        return rank(query, documents)[:most]

    def _answer(self, query: str, found: Sequence[str]) -> Output:
        available = self._tools.available()
        changed = [name for name in found if self._has_other(name)]
        new = [name for name in found if name in available and name not in changed]
        if new:
            self._tools.load(new)
            references = tuple(UnknownBlock(reference(name)) for name in new)
            shown = {"kind": "text", "text": "\n".join(new)}
            data = {LOADED_TOOLS: [self._tools.record(name) for name in new]}
            return Output(references, summary=f"{counted(len(new), 'tool')} loaded", display=shown, data=data)
        if changed:
            texts = [json.dumps(definition_of(available[name]), ensure_ascii=False) for name in changed]
            return Output("These tools have changed. Call them by their new definitions:\n" + "\n".join(texts))
        if found:
            return Output(f"Already loaded, call it directly: {', '.join(found)}", summary="already loaded")
        return Output(self._report_nothing(query, len(available)), summary="no tool found")

    def _has_other(self, name: str) -> bool:
        """Whether the model has another definition of a tool than its server offers now."""
        known, now = self._tools.find_loaded_definition(name), self._tools.available().get(name)
        return known is not None and now is not None and definition_of(now) != known

    def _report_nothing(self, query: str, count: int) -> str:
        pending = self._tools.pending()
        waiting = f" Still connecting: {', '.join(pending)}; search again later." if pending else ""
        if unavailable := self._tools.unavailable()[:_MAX_RESULTS]:
            waiting += f" Not connected, tell the user if you need them: {'; '.join(unavailable)}."
        there = f"{counted(count, 'deferred tool')} searched." if count else "There are no deferred tools now."
        return f"No tool matches {plain_line(query, 100)!r}. {there}{waiting}"


def _meant(name: str, tools: Mapping[str, Tool]) -> list[str]:
    """The tool with this full name, or the only one with this name on its server."""
    if name in tools:
        return [name]
    short = [each for each in tools if each.split("__", 2)[-1] == name]
    return short if len(short) == 1 else []


_RESOURCE_TOOLS = (ListMcpResources.name, ReadMcpResource.name)


def is_of_servers(tool: Tool) -> bool:
    return isinstance(tool, McpTool | ListMcpResources | ReadMcpResource | ToolSearch)


def match_any(names: Iterable[str]) -> Callable[[str], bool]:
    """A predicate for tool names that match one of these, which may be `mcp__server` or have wildcards in the tool's
    part."""
    rules = [Rule(name.partition("(")[0].strip()) for name in names]
    return lambda tool: any(rule.names(tool) for rule in rules)


def agent_limits(spec: AgentSpec, parent: Registry, settings: ServerToolSettings) -> ServerToolLimits | None:
    """The part of its parent's MCP tools that an agent gets; None: none."""
    if spec.shares_context:
        direct = (tool for tool in parent if is_of_servers(tool) and tool.name not in parent.deferred)
        return ServerToolLimits(settings, direct=tuple(tool for tool in direct if not isinstance(tool, ToolSearch)))
    wanted, unwanted = match_any(spec.tools or ("*",)), match_any(spec.disallowed_tools)
    if spec.tools is not None and not any(name.startswith(("mcp__", "*", *_RESOURCE_TOOLS)) for name in spec.tools):
        return None
    return ServerToolLimits(settings, lambda name: wanted(name) and not unwanted(name))
