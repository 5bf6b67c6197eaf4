"""ToolSearch: finds deferred tools of MCP servers and loads them into the conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json, UnknownBlock
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.core.text.ranking import RankedDocument, rank
from agentcli.providers.requests.deferred_tools import reference
from agentcli.tools.base import Output, Progress, Tool, ToolContext, ToolRun
from agentcli.tools.builtin import object_schema

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import McpOffer

NAME = "ToolSearch"
LOADED_TOOLS = "loaded_tools"
"""Key in `Output.data`: records of the tools that were loaded, see `McpOffer.record`."""
_SELECT = "select:"
_USUAL_RESULTS = 5
_MOST_RESULTS = 20
_CONNECT_SECONDS = 15.0
"""Timeout for servers that are still connecting when nothing is found."""
_DESCRIPTION = (
    "Load tools of MCP servers. Messages list deferred tools by name only; this finds them and loads their "
    "definitions, and then they can be called like any other tool. Search once for all that a task needs, and before "
    "you say that there is no tool for something: servers that are still connecting are waited for."
)


class ToolSearch:
    name = NAME
    subject = "query"
    description = _DESCRIPTION
    input_schema = object_schema(
        ["query"],
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "description": "Words that describe the tool, or select:NAME,NAME for tools by name",
            },
            "max_results": {"type": "integer", "minimum": 1, "maximum": _MOST_RESULTS, "description": "Default 5"},
        },
    )

    def __init__(self, tools: McpOffer, definition_of: Callable[[Tool], Json]) -> None:
        self._tools = tools
        self._definition_of = definition_of

    def title(self, input: Json) -> str:
        return plain_line(f"{NAME} {input.get('query', '')}").strip()

    def is_safe(self, input: Json) -> bool:
        return True

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("none", str(input.get("query", ""))),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        query, most = str(input["query"]).strip(), int(input.get("max_results", _USUAL_RESULTS))
        found = self._found(query, most)
        if not found and (pending := self._tools.pending()):
            yield Progress(plain_line(f"waiting for {', '.join(pending)}"))
            await signal.run(self._tools.servers.settle(_CONNECT_SECONDS))
            found = self._found(query, most)
        yield self._answer(query, found)

    def _found(self, query: str, most: int) -> list[str]:
        available = self._tools.available()
        if query.lower().startswith(_SELECT):
            wanted = [name.strip() for name in query[len(_SELECT) :].split(",") if name.strip()][:_MOST_RESULTS]
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
            texts = [json.dumps(self._definition_of(available[name]), ensure_ascii=False) for name in changed]
            return Output("These tools have changed. Call them by their new definitions:\n" + "\n".join(texts))
        if found:
            return Output(f"Already loaded, call it directly: {', '.join(found)}", summary="already loaded")
        return Output(self._nothing(query, len(available)), summary="no tool found")

    def _has_other(self, name: str) -> bool:
        """Whether the model has another definition of a tool than its server offers now."""
        known, now = self._tools.loaded_definition(name), self._tools.available().get(name)
        return known is not None and now is not None and self._definition_of(now) != known

    def _nothing(self, query: str, count: int) -> str:
        pending = self._tools.pending()
        waiting = f" Still connecting: {', '.join(pending)}; search again later." if pending else ""
        if unavailable := self._tools.unavailable()[:_MOST_RESULTS]:
            waiting += f" Not connected, tell the user if you need them: {'; '.join(unavailable)}."
        there = f"{counted(count, 'deferred tool')} searched." if count else "There are no deferred tools now."
        return f"No tool matches {plain_line(query, 100)!r}. {there}{waiting}"


def _meant(name: str, tools: Mapping[str, Tool]) -> list[str]:
    """The tool with this full name, or the only one with this name on its server."""
    if name in tools:
        return [name]
    short = [each for each in tools if each.split("__", 2)[-1] == name]
    return short if len(short) == 1 else []
