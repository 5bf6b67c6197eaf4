"""Deferred tools in a request: definitions that `tool_reference` blocks in tool results load.

A model or an endpoint without them gets the definitions as text in the place of the references.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any

from agentcli.core.messages import Json

REFERENCE = "tool_reference"


def reference(name: str) -> Json:
    return {"type": REFERENCE, "tool_name": name}


def defer(tools: Iterable[Json]) -> list[Json]:
    return [{**tool, "defer_loading": True} for tool in tools]


class ReferenceReader:
    """Finds the tools that messages refer to. Messages that are the same objects as before are not read again."""

    def __init__(self) -> None:
        self._messages: Sequence[Json] = ()
        self._names: list[tuple[str, ...]] = []
        """For each message."""

    def names(self, messages: Sequence[Json]) -> tuple[str, ...]:
        """In the order of their first reference."""
        same = sum(takewhile(bool, map(is_, self._messages, messages)))
        self._names[same:] = [tuple(_references(message)) for message in messages[same:]]
        self._messages = messages
        return tuple(dict.fromkeys(name for found in self._names for name in found))


def resolve_references(messages: list[Json], tools: Iterable[Json]) -> None:
    """Replace references by text, in copies of their messages, unless the tool is there and deferred: the API refuses
    them."""
    known = {str(tool.get("name")): tool for tool in tools}
    for place, message in enumerate(messages):
        names = list(_references(message))
        if not all("defer_loading" in known.get(name, {}) for name in names):
            messages[place] = {**message, "content": [_resolved(block, known) for block in message["content"]]}


def uses_references(body: Json) -> bool:
    return any("defer_loading" in tool for tool in body.get("tools", ())) or any(
        True for message in body["messages"] for _name in _references(message)
    )


def _references(message: Json) -> Iterator[str]:
    for part in _result_parts(message):
        if part.get("type") == REFERENCE:
            yield str(part.get("tool_name"))


def _result_parts(message: Json) -> Iterator[Json]:
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, list):
        return
    for block in content:
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from block["content"]


def _resolved(block: Json, known: Mapping[str, Json]) -> Json:
    if block.get("type") != "tool_result" or not isinstance(block.get("content"), list):
        return block
    return {**block, "content": [_as_text(part, known) for part in block["content"]]}


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
