"""Inform the model and the user about MCP servers: deferred tools, instructions, lost connections, costs.

What was announced to the model is read from the messages in sight, so that it survives a resume and is repeated after a
compaction.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentcli.agent.loop_state import LoopState
from agentcli.agent.mcp.server_tools import ServerTools
from agentcli.agent.ports import Attachments
from agentcli.context.estimate import schema_tokens, text_tokens
from agentcli.core.events import NoticeRaised
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import MCP_SERVERS, Json, Message, Origin, user_message
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.format import counted, plural
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.mcp.protocol import split_name
from agentcli.mcp.server import McpServer, ServerState
from agentcli.mcp.servers import McpServers

LISTED_TOKENS = 1_200
"""Maximum tokens of all tool names in one message."""
MAX_INSTRUCTIONS = 2_000
MAX_ANNOUNCED = 8
"""Messages in sight about one server; after these only its end and its return are announced."""
LISTS_SECONDS = 1.5
"""How long a request waits for the lists of a server that has announced a change: without them a short run would end
before the model learns of a new tool."""
_HEADING = (
    "[Deferred tools of MCP servers. ToolSearch loads them. They are called mcp__SERVER__NAME, here without "
    "mcp__SERVER__:]"
)
_Announced = dict[str, Any]
"""About one server: `gone`, `tools` (names), `instructions` (a digest)."""


class McpUpdates(Attachments):
    """The MCP updates of one conversation."""

    def __init__(
        self,
        tools: ServerTools,
        prepare: Callable[[], None],
        ids: Ids,
        shown: Callable[[Sequence[Message]], Sequence[Message]],
    ) -> None:
        """`prepare`: called before each request; decides which tools it has."""
        self._tools = tools
        self._prepare = prepare
        self._ids = ids
        self._shown = shown
        self._announced: RunningValue[Message, tuple[dict[str, _Announced], Counter[str]]] = RunningValue(
            lambda: ({}, Counter()), _with_servers
        )
        """From the messages in the context: the last report about each server, and the number of reports."""

    @property
    def waits(self) -> bool:
        return any(server.is_stale for server in self._tools.servers)

    async def collect(self, state: LoopState) -> Sequence[Message]:
        shown = self._shown(state.messages)
        announced, times = self._announced.of(shown)
        if self.waits:
            calm = [server.name for server in self._tools.servers if times[server.name] < MAX_ANNOUNCED]
            await self._tools.servers.read_lists(calm, LISTS_SECONDS)
        self._prepare()
        now = {
            server.name: self._state_of(server.name, announced.get(server.name), times[server.name] >= MAX_ANNOUNCED)
            for server in self._tools.servers
        }
        news = {name: one for name, one in now.items() if one is not None and one != announced.get(name)}
        if not news:
            return ()
        lines = self._lines(news, announced)
        if restless := [name for name, one in news.items() if times[name] == MAX_ANNOUNCED - 1 and not one["gone"]]:
            lines.append(
                f"[MCP servers that change often: {_names(restless)}. Further changes are not listed; ToolSearch finds "
                "their current tools.]"
            )
        text = "\n".join(lines)
        if not text:
            return ()
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, {MCP_SERVERS: news}),)

    def _state_of(self, name: str, announced: _Announced | None, is_restless: bool) -> _Announced | None:
        """The state of a server to announce; None: nothing was announced, and there is nothing to announce."""
        offered, server = self._tools, self._tools.servers.get(name)
        assert server is not None
        if not server.start_ended:
            return announced  # calls wait for it
        if server.state != "connected":
            if announced is None and name not in offered.servers_with_direct_tools:
                return None
            return {"gone": True, "tools": [], "instructions": (announced or {}).get("instructions", "")}
        instructions = "" if offered.refuses_server(name) else _instructions(server.offers.instructions)
        tools = offered.deferred_by_server().get(name, []) if offered.can_search else []
        now: _Announced = {"gone": False, "tools": tools, "instructions": _digest(instructions)}
        if is_restless and announced is not None:
            return {**announced, "gone": False}
        return None if announced is None and not tools and not instructions else now

    def _lines(self, news: Mapping[str, _Announced], announced: Mapping[str, _Announced]) -> list[str]:
        listed = {name: one["tools"] for name, one in news.items() if _has_other_tools(one, announced.get(name))}
        lines = self._tool_lines({name: tools for name, tools in listed.items() if tools})
        emptied = [name for name, tools in listed.items() if not tools and not news[name]["gone"]]
        gone = [name for name, one in news.items() if one["gone"]]
        back = [
            name
            for name, one in news.items()
            if not one["gone"] and announced.get(name, {}).get("gone") and not one["tools"]
        ]
        if emptied:
            lines.append(f"[MCP servers that have no deferred tools any more: {_names(emptied)}]")
        if gone:
            lines.append(f"[MCP servers that are not connected any more: {_names(gone)}. Calls of their tools fail.]")
        if back:
            lines.append(f"[MCP servers that are connected again: {_names(back)}]")
        for name, one in news.items():
            if one["instructions"] and one["instructions"] != announced.get(name, {}).get("instructions"):
                server = self._tools.servers.get(name)
                text = _instructions(server.offers.instructions) if server is not None else ""
                if text:
                    lines.append(f"[Instructions of the MCP server {plain_line(name, 80)}:\n{text}]")
        return lines

    def _tool_lines(self, tools: Mapping[str, Sequence[str]]) -> list[str]:
        """One line per server. Each gets at least an equal share of the token limit."""
        lines: list[str] = []
        left = float(LISTED_TOKENS)
        for number, (server, names) in enumerate(sorted(tools.items(), key=lambda one: (len(one[1]), one[0]))):
            share, kept, used = left / (len(tools) - number), 0, 0.0
            while kept < len(names) and used + (cost := text_tokens(f"{names[kept]}, ")) <= share:
                used, kept = used + cost, kept + 1
            left -= used
            more = f" and {len(names) - kept} more" if kept < len(names) else ""
            count = counted(len(names), "tool")
            lines.append(f"- {self._tools.part_of(server)} ({count}): {', '.join(names[:kept])}{more}")
        return [_HEADING, *lines] if lines else []


def _with_servers(
    known: tuple[dict[str, _Announced], Counter[str]], message: Message
) -> tuple[dict[str, _Announced], Counter[str]]:
    about = message.meta.get(MCP_SERVERS, {})
    known[0].update(about)
    known[1].update(about.keys())
    return known


def _has_other_tools(now: _Announced, announced: _Announced | None) -> bool:
    return list(now["tools"]) != list((announced or {}).get("tools", ())) and not now["gone"]


def _instructions(text: str) -> str:
    text = plain_text(text).strip()
    return text if len(text) <= MAX_INSTRUCTIONS else f"{text[:MAX_INSTRUCTIONS].rstrip()} [… cut off]"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest() if text else ""


def _names(names: Sequence[str]) -> str:
    return ", ".join(plain_line(name, 80) for name in names)


@frozen
class ServerCost:
    server: str
    direct: int = 0
    """Number of tools in every request."""
    direct_tokens: int = 0
    loaded: int = 0
    """Number of tools that a search has loaded."""
    loaded_tokens: int = 0
    deferred: int = 0
    """Number of tools that are not in every request, including the loaded ones; they cost their names."""
    announced_tokens: int = 0
    """Its share of the messages that list tools and give instructions."""

    @property
    def tokens(self) -> int:
        return self.direct_tokens + self.loaded_tokens + self.announced_tokens


def server_costs(
    tools: ServerTools, direct: Sequence[Json], loaded: Sequence[Json], shown: Sequence[Message], density: float
) -> list[ServerCost]:
    """Costs per server. `direct`, `loaded`: definitions in the next request; `shown`: its messages; `density`: true
    tokens per estimated token."""
    deferred = tools.deferred_by_server()
    costs = []
    for server in tools.servers:
        part = tools.part_of(server.name)
        always, later = _of(part, direct), _of(part, loaded)
        costs.append(
            ServerCost(
                server.name,
                len(always),
                round(sum(map(schema_tokens, always)) * density),
                len(later),
                round(sum(map(schema_tokens, later)) * density),
                len(deferred.get(server.name, ())),
                round(_count_announced(server, shown) * density),
            )
        )
    return costs


def _of(part: str, tools: Sequence[Json]) -> list[Json]:
    return [tool for tool in tools if (split_name(str(tool["name"])) or ("", ""))[0] == part]


def _count_announced(server: McpServer, shown: Sequence[Message]) -> float:
    """Estimated tokens of the messages that list a server's tools and give its instructions."""
    about = [found for message in shown if (found := message.meta.get(MCP_SERVERS, {}).get(server.name)) is not None]
    names = sum(min(LISTED_TOKENS, text_tokens(", ".join(one["tools"]))) for one in about)
    return names + (text_tokens(_instructions(server.offers.instructions)) if about else 0.0)


CODE = "mcp"


class ServerNotices:
    """Each text is reported once, however often a server fails."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._version = -1
        self._states: dict[str, ServerState] = {}
        self._reported: set[str] = set()

    def take(self) -> list[NoticeRaised]:
        """Notices about changes since the last call. Cheap if nothing has changed."""
        if self._version == self._servers.version:
            return []
        self._version = self._servers.version
        found = [notice for server in self._servers for notice in self._of(server)]
        new = [notice for notice in found if notice.text not in self._reported]
        self._reported.update(notice.text for notice in new)
        return new

    def _of(self, server: McpServer) -> Iterator[NoticeRaised]:
        before, self._states[server.name] = self._states.get(server.name, "waiting"), server.state
        name, reason = plain_line(server.name, 60), plain_line(server.error, 160).rstrip(".")
        match server.state:
            case "failed" if server.retry_seconds is not None:
                yield _notice(f"MCP server {name} failed: {reason}; trying again")
            case "failed":
                yield _notice(f"MCP server {name} failed: {reason or 'no reason given'}; /mcp shows more")
            case "needs-auth":
                yield _notice(f"MCP server {name} needs sign-in; use /mcp login {name}")
            case "connected" if changed := [tool.name for tool in server.offers.tools if server.has_changed(tool)]:
                tools = plain_line(", ".join(changed), 160)
                yield _notice(f"MCP server {name} changed its {plural(len(changed), 'tool')} {tools}; /mcp shows more")
            case "connecting" | "waiting" if before == "connected" and reason:
                yield _notice(f"MCP server {name} failed: {reason}; trying again")


def _notice(text: str) -> NoticeRaised:
    return NoticeRaised(text=text, level="warning", code=CODE)
