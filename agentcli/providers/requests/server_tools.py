"""Tools of the API in a request: deferred tools, whose definitions are loaded by references, and the advisor.

A model or an endpoint that does not support references gets the definitions as text in their place. The advisor is a
second model that the server consults during a reply: the API offers it as a tool and puts the call and the advice into
the reply; both are sent back unchanged.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from agentcli.core.append_only import AppendOnly, as_append_only
from agentcli.core.messages import Block, Json, UnknownBlock
from agentcli.core.text.plaintext import plain_text

ADVISOR_BETA = "advisor-tool-2026-03-01"
ADVISOR = "advisor"
"""Name of the tool."""
_ADVISOR_TYPE = "advisor_20260301"
_ADVICE = "advisor_tool_result"
_LEFT_OUT: Json = {"type": "text", "text": "[Consulted the advisor]"}


def advisor_tool(model: str) -> Json:
    return {"type": _ADVISOR_TYPE, "name": ADVISOR, "model": model}


def advisor_of(tools: Iterable[Json]) -> str:
    """The advisor's model; "" if the tools have no advisor."""
    return next((str(tool["model"]) for tool in tools if tool.get("type") == _ADVISOR_TYPE), "")


def without_advisor(tools: Iterable[Json]) -> list[Json]:
    return [tool for tool in tools if tool.get("type") != _ADVISOR_TYPE]


def has_advice(message: Json) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(map(_is_advice, content))


def leave_out_advice(messages: list[Json]) -> None:
    """Remove the advisor's blocks, in copies of their messages: the API refuses them without the tool."""
    for place, message in enumerate(messages):
        if has_advice(message):
            kept = [block for block in message["content"] if not _is_advice(block)]
            messages[place] = {**message, "content": kept or [_LEFT_OUT]}


def describe_advice(block: Block, model: str) -> str:
    """What an advisor's result says, for the user; "" for any other block."""
    if not isinstance(block, UnknownBlock) or block.type != _ADVICE:
        return ""
    content: Any = block.data.get("content")
    content = content if isinstance(content, dict) else {}
    text = content.get("text")
    if isinstance(text, str) and text.strip():
        return f"Advice from {model}: {plain_text(text).strip()}"
    if code := content.get("error_code"):
        return f"The advisor {model} did not answer: {plain_text(str(code)).replace('_', ' ')}."
    return f"{model} gave advice that only the model can read."


def _is_advice(block: Any) -> bool:
    """Whether a block is a call of the advisor, or its result."""
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    return kind == _ADVICE or (kind == "server_tool_use" and block.get("name") == ADVISOR)


REFERENCE = "tool_reference"
OWN_SEARCH = "ToolSearch"
API_SEARCH: Json = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
_API_RESULT = "tool_search_tool_result"


def reference(name: str) -> Json:
    return {"type": REFERENCE, "tool_name": name}


def defer(tools: Iterable[Json]) -> list[Json]:
    return [{**tool, "defer_loading": True} for tool in tools]


def with_api_search(tools: Iterable[Json]) -> tuple[Json, ...]:
    """The tools with the API's own search in place of ToolSearch."""
    return (*(tool for tool in tools if tool.get("name") != OWN_SEARCH), API_SEARCH)


def without_api_search(tools: Iterable[Json]) -> list[Json]:
    return [tool for tool in tools if tool.get("name") != API_SEARCH["name"]]


class ReferenceReader:
    """Finds the tools that messages refer to. Messages that are the same objects as before are not read again."""

    def __init__(self) -> None:
        self._messages: AppendOnly[Json] = AppendOnly()
        self._names: list[tuple[int, str]] = []
        """Tool names, each with the index of its message."""

    def names(self, messages: Sequence[Json]) -> tuple[str, ...]:
        """Referenced tool names in the order of their first reference; includes the API's own search and the advisor,
        if they were used."""
        now = as_append_only(messages)
        same = self._messages.shared_with(now)
        del self._names[bisect_left(self._names, same, key=itemgetter(0)) :]
        for place, message in enumerate(now[same:], same):
            if not _may_refer(message):
                continue
            self._names += [(place, name) for name in _references(message)]
            if _has_api_search(message):
                self._names.append((place, str(API_SEARCH["name"])))
            if has_advice(message):
                self._names.append((place, ADVISOR))
        self._messages = now
        return tuple(dict.fromkeys(name for _place, name in self._names))


def resolve_references(messages: list[Json], tools: Sequence[Json]) -> None:
    """Replace references by text, in copies of their messages, unless the tool is defined and deferred: the API refuses
    them otherwise. Blocks of the API's own search stay only if it is still in use."""
    known = {str(tool.get("name")): tool for tool in tools}
    by_api = API_SEARCH["name"] in known
    for place, message in enumerate(messages):
        names = list(_references(message))
        kept = all("defer_loading" in known.get(name, {}) for name in names)
        if not kept or (not by_api and _has_api_search(message)):
            blocks = [_resolve(block, known, by_api=by_api) for block in message["content"]]
            left = [block for block in blocks if block is not None]
            messages[place] = {**message, "content": left or [{"type": "text", "text": "[Searched for tools]"}]}


def uses_references(body: Json) -> bool:
    """Whether a body contains anything that an endpoint without deferred tools refuses."""
    tools, messages = body.get("tools", ()), body["messages"]
    if any("defer_loading" in tool or tool.get("name") == API_SEARCH["name"] for tool in tools):
        return True
    return any(True for message in messages for _name in _references(message))


def _may_refer(message: Json) -> bool:
    """Quick check whether a message may refer to a tool: a request has thousands of messages, and hardly any does."""
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type")
        if kind == "tool_result":
            for part in block.get("content") or ():
                if part.__class__ is not dict or part.get("type") == REFERENCE:
                    return True
        elif kind == _API_RESULT or kind == "server_tool_use":
            return True
    return False


def _references(message: Json) -> Iterator[str]:
    for part in _result_parts(message):
        if part.get("type") == REFERENCE:
            yield str(part.get("tool_name"))


def _result_parts(message: Json) -> Iterator[Json]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        kind, found = block.get("type"), block.get("content")
        if kind == "tool_result" and isinstance(found, list):
            yield from found
        elif kind == _API_RESULT and isinstance(found, dict) and isinstance(found.get("tool_references"), list):
            yield from found["tool_references"]


def _has_api_search(message: Json) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(_is_api_search(block) for block in content)


def _is_api_search(block: Json) -> bool:
    """Whether a block is a call of the API's own search, or its result."""
    kind = block.get("type")
    return kind == _API_RESULT or (kind == "server_tool_use" and block.get("name") == API_SEARCH["name"])


def _resolve(block: Json, known: Mapping[str, Json], *, by_api: bool) -> Json | None:
    """A block in a form that can be sent; None: leave it out."""
    content = block.get("content")
    if block.get("type") == "tool_result" and isinstance(content, list):
        return {**block, "content": [_as_text(part, known) for part in content]}
    if not _is_api_search(block):
        return block
    if not by_api:
        if block["type"] != _API_RESULT:
            return None
        names = [str(part.get("tool_name")) for part in _result_parts({"content": [block]})]
        return {"type": "text", "text": f"[Found tools: {', '.join(names) or 'none'}]"}
    if isinstance(content, dict) and "tool_references" in content:
        kept = [p for p in content["tool_references"] if "defer_loading" in known.get(str(p.get("tool_name")), {})]
        return {**block, "content": {**content, "tool_references": kept}}
    return block


def _as_text(part: Json, known: Mapping[str, Json]) -> Json:
    if part.get("type") != REFERENCE:
        return part
    name = str(part.get("tool_name"))
    tool: Mapping[str, Any] | None = known.get(name)
    if tool is not None and "defer_loading" in tool:
        return part
    if tool is None:
        return {"type": "text", "text": f"[The tool {name} is no longer available.]"}
    definition = {key: tool.get(key) for key in ("name", "description", "input_schema")}
    return {"type": "text", "text": f"You can call this tool now:\n{json.dumps(definition, ensure_ascii=False)}"}
