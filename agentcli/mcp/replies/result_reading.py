"""Convert results of calls, resources and prompts to our own types: cleaned and limited."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from agentcli.core.files.bounded_json import DEEPEST_INPUT
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.limits import ServerLimits
from agentcli.mcp.offers import McpContent, McpResult, PromptMessage
from agentcli.mcp.replies.large_text import joined, pieces_of, plain_large_text

_MOST_PARTS = 10_000
_LINE = 4096


class AnswerTooLargeError(ValueError):
    """A result has more text and base64 than allowed."""


def read_call(result: Json, limits: ServerLimits) -> McpResult:
    room = _Room(limits.result_chars)
    content = _contents(result.get("content", []), room)
    structured = result.get("structuredContent")
    return McpResult(content, room.clean(structured), result.get("isError") is True)


def read_resource(result: Json, limits: ServerLimits) -> tuple[McpContent, ...]:
    room = _Room(limits.result_chars)
    return tuple(_resource(raw, room) for raw in _list(result["contents"]))


def read_messages(result: Json, limits: ServerLimits) -> tuple[PromptMessage, ...]:
    room = _Room(limits.result_chars)
    return tuple(
        PromptMessage("assistant" if raw.get("role") == "assistant" else "user", content)
        for raw in _list(result["messages"])
        for content in _contents(raw["content"] if isinstance(raw["content"], list) else [raw["content"]], room)
    )


def read_content(raw: Json) -> McpContent:
    """Convert one part that the library has already parsed."""
    return _content(raw, _Room(ServerLimits().result_chars))


class _Room:
    """Cleans texts and counts their characters against the limit."""

    def __init__(self, chars: int) -> None:
        self._most = chars
        self._left = chars

    def text(self, value: Any) -> str:
        if not isinstance(value, str):
            return ""
        self._take(len(value))
        return plain_large_text(value)

    def base64(self, value: Any) -> str:
        """Check base64 data. Raises `ValueError` if it is invalid."""
        if not isinstance(value, str):
            raise ValueError("no base64")
        self._take(len(value))
        if "\n" in value:
            value = joined("".join(piece.split()) for piece in pieces_of(value))
        try:
            for piece in pieces_of(value):
                base64.b64decode(piece, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("not valid base64") from None
        return str(value)

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Structured content with every text cleaned."""
        if isinstance(value, str):
            return self.text(value)
        self._take(1)
        if depth > DEEPEST_INPUT:
            raise AnswerTooLargeError(f"the result is nested more than {DEEPEST_INPUT} levels deep")
        if isinstance(value, list):
            return [self.clean(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.clean(each, depth + 1) for key, each in value.items()}
        return value

    def _take(self, chars: int) -> None:
        self._left -= chars
        if self._left < 0:
            raise AnswerTooLargeError(f"the result is larger than {self._most / 1e6:g} MB")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    if len(value) > _MOST_PARTS:
        raise AnswerTooLargeError(f"the result has {len(value):,} parts (limit {_MOST_PARTS:,})")
    return value


def _contents(parts: Any, room: _Room) -> tuple[McpContent, ...]:
    return tuple(_content(part, room) for part in _list(parts))


def _content(raw: Any, room: _Room) -> McpContent:
    if not isinstance(raw, dict):
        return McpContent("text", text="[a part that cannot be read]")
    match raw.get("type"):
        case "text":
            return McpContent("text", text=room.text(raw.get("text")))
        case "image" | "audio" as kind:
            try:
                return McpContent(kind, data=room.base64(raw.get("data")), mime_type=_line(raw.get("mimeType")))
            except AnswerTooLargeError:
                raise
            except ValueError as error:
                return McpContent("text", text=f"[{kind}: {error}]")
        case "resource":
            return _resource(raw.get("resource"), room)
        case "resource_link":
            return McpContent(
                "link",
                text=room.text(raw.get("description")),
                uri=_line(raw.get("uri")),
                name=_line(raw.get("name")),
                mime_type=_line(raw.get("mimeType")),
            )
    return McpContent("text", text=f"[content of an unknown kind: {plain_line(str(raw.get('type')), 40)}]")


def _resource(raw: Any, room: _Room) -> McpContent:
    if not isinstance(raw, dict):
        return McpContent("text", text="[a resource that cannot be read]")
    uri, mime_type = _line(raw.get("uri")), _line(raw.get("mimeType"))
    if "blob" not in raw:
        return McpContent("resource", text=room.text(raw.get("text")), mime_type=mime_type, uri=uri)
    try:
        return McpContent("resource", data=room.base64(raw.get("blob")), mime_type=mime_type, uri=uri)
    except AnswerTooLargeError:
        raise
    except ValueError as error:
        return McpContent("text", text=f"[resource {uri}: {error}]")


def _line(value: Any) -> str:
    return plain_line(value, _LINE) if isinstance(value, str) else ""
