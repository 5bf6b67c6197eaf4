"""Convert the lists and results of servers to our own types: cleaned and limited."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from agentcli.core.files.bounded_read import DEEPEST_INPUT
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text, spell_hidden
from agentcli.mcp.link import ServerLimits
from agentcli.mcp.protocol import (
    McpContent,
    McpResult,
    PromptArgument,
    PromptMessage,
    PromptOffer,
    ResourceOffer,
    ResourceTemplateOffer,
    ToolOffer,
)
from agentcli.mcp.schemas import MAX_SCHEMA_CHARS, SchemaRefused, clean_schema

MAX_RESULT_KEY = "anthropic/maxResultSizeChars"
Refused = tuple[str, str]
"""A name, and why it cannot be used."""
MAX_NAME = 128
_MAX_DESCRIPTION = 16 * 1024
_MAX_TITLE = 200
_MAX_URI = 4096
_MAX_REFUSED = 100
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_ALL_SCHEMAS = 16 * MAX_SCHEMA_CHARS
"""Maximum characters of all schemas in one response."""
T = TypeVar("T")


def clean_text(value: Any, limit: int) -> str:
    """A server's text without control characters, with hidden ones spelled out, cut at `limit`; empty if not a text."""
    if not isinstance(value, str):
        return ""
    text = spell_hidden(plain_text(value[: limit * 2]))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_tools(result: Json, limits: ServerLimits) -> tuple[tuple[ToolOffer, ...], tuple[Refused, ...]]:
    left = _MAX_ALL_SCHEMAS
    found: dict[str, ToolOffer] = {}
    refused: list[Refused] = []
    entries = _entries(result, "tools")
    for number, raw in enumerate(entries[: limits.tools]):
        name = raw.get("name") if isinstance(raw, dict) else None
        shown = plain_line(name, MAX_NAME) if isinstance(name, str) and name else f"tool {number + 1}"
        reason = "it is not an object" if not isinstance(raw, dict) else _bad_name(name)
        if not reason and name in found:
            reason = "another tool has the same name"
        if not reason:
            try:
                tool, used = _tool(raw, min(left, MAX_SCHEMA_CHARS))
                found[tool.name] = tool
                left -= used
            except SchemaRefused as error:
                reason = str(error)
        if reason and len(refused) < _MAX_REFUSED:
            refused.append((shown, reason))
    if len(entries) > limits.tools:
        refused.append((f"{len(entries) - limits.tools:,} tools", f"a server may have {limits.tools:,}"))
    return tuple(found.values()), tuple(refused)


def _bad_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        return "it has no name"
    if len(name) > MAX_NAME:
        return f"its name has {len(name):,} characters (limit {MAX_NAME})"
    if spell_hidden(plain_text(name)) != name or "\n" in name or "\t" in name:
        return "its name has control characters"
    return ""


def _tool(raw: Json, most_chars: int) -> tuple[ToolOffer, int]:
    """The tool, and the approximate number of characters in its schemas."""
    given = raw.get("inputSchema")
    try:
        schema = clean_schema({} if given is None else given, most_chars)
    except SchemaRefused as error:
        raise SchemaRefused(f"its input schema {error}") from None
    bad = next((name for name in schema.get("properties", ()) if not _PARAMETER.fullmatch(name)), None)
    if bad is not None:
        raise SchemaRefused(f"the API does not accept the parameter name {plain_line(bad, 80)!r}")
    hints = _object(raw.get("annotations"))
    largest = _object(raw.get("_meta")).get(MAX_RESULT_KEY)
    offer = ToolOffer(
        name=raw["name"],
        description=clean_text(raw.get("description"), _MAX_DESCRIPTION),
        title=_line(raw.get("title")) or _line(hints.get("title")),
        input_schema=schema,
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is True,
        open_world=hints.get("openWorldHint") is True,
        max_result_chars=largest if isinstance(largest, int) and not isinstance(largest, bool) else None,
    )
    return offer, len(str(schema))


def _resource(raw: Json) -> ResourceOffer | None:
    uri = clean_text(raw.get("uri"), _MAX_URI)
    size = raw.get("size")
    if not uri or uri != raw["uri"]:
        return None
    return ResourceOffer(
        uri=uri,
        **_describe(raw),
        size=size if isinstance(size, int) and not isinstance(size, bool) else None,
    )


def _template(raw: Json) -> ResourceTemplateOffer | None:
    template = clean_text(raw.get("uriTemplate"), _MAX_URI)
    if not template or template != raw["uriTemplate"]:
        return None
    return ResourceTemplateOffer(template, **_describe(raw))


def _describe(raw: Json) -> dict[str, Any]:
    """The common descriptive fields of resources and templates."""
    named = {"name": raw.get("name"), "title": raw.get("title"), "mime_type": raw.get("mimeType")}
    lines = {field: _line(value) for field, value in named.items()}
    return {**lines, "description": clean_text(raw.get("description"), _MAX_DESCRIPTION)}


def _prompt(raw: Json) -> PromptOffer | None:
    if _bad_name(raw.get("name")):
        return None
    given = raw.get("arguments")
    arguments = [_argument(each) for each in (given[:100] if isinstance(given, list) else ())]
    # An argument without a name cannot be filled in, so the prompt cannot be used.
    if any(argument is None for argument in arguments):
        return None
    return PromptOffer(
        raw["name"],
        _line(raw.get("title")),
        clean_text(raw.get("description"), _MAX_DESCRIPTION),
        tuple(argument for argument in arguments if argument is not None),
    )


def _argument(raw: Any) -> PromptArgument | None:
    if not isinstance(raw, dict) or _bad_name(raw.get("name")):
        return None
    description = clean_text(raw.get("description"), _MAX_DESCRIPTION)
    return PromptArgument(raw["name"], description, raw.get("required") is True)


def _read(key: str, convert: Callable[[Json], T | None], result: Json, limits: ServerLimits) -> tuple[T, ...]:
    """Convert the entries of a list. Unusable ones are left out."""
    found: Iterable[T | None] = (convert(raw) for raw in _entries(result, key)[: limits.tools] if isinstance(raw, dict))
    return tuple(each for each in found if each is not None)


read_resources = partial(_read, "resources", _resource)
read_templates = partial(_read, "resourceTemplates", _template)
read_prompts = partial(_read, "prompts", _prompt)


def _entries(result: Json, key: str) -> list[Any]:
    entries = result[key]
    if not isinstance(entries, list):
        raise TypeError(f"{key} is not a list")
    return entries


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _line(value: Any, limit: int = _MAX_TITLE) -> str:
    return plain_line(value, limit) if isinstance(value, str) else ""


_MAX_PARTS = 10_000
_MAX_LINE = 4096


class ResultRefused(ValueError):
    """A result that is not used; the text says why."""


def read_call(result: Json, _limits: ServerLimits) -> McpResult:
    content = _contents(result.get("content", []))
    return McpResult(content, _clean(result.get("structuredContent")), result.get("isError") is True)


def read_resource(result: Json, _limits: ServerLimits) -> tuple[McpContent, ...]:
    return tuple(map(_resource_content, _list(result["contents"])))


def read_messages(result: Json, _limits: ServerLimits) -> tuple[PromptMessage, ...]:
    return tuple(
        PromptMessage("assistant" if raw.get("role") == "assistant" else "user", content)
        for raw in _list(result["messages"])
        for content in _contents(raw["content"] if isinstance(raw["content"], list) else [raw["content"]])
    )


def _text(value: Any) -> str:
    return plain_text(value) if isinstance(value, str) else ""


def _base64(value: Any) -> str:
    """Check base64 data. Raises `ValueError` if it is invalid."""
    text = "".join(value.split()) if isinstance(value, str) else None
    try:
        base64.b64decode(text or "!", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not valid base64" if text is not None else "no base64") from None
    return text or ""


def _clean(value: Any, depth: int = 0) -> Any:
    """Structured content with every text cleaned."""
    if depth > DEEPEST_INPUT:
        raise ResultRefused(f"the result is nested more than {DEEPEST_INPUT} levels deep")
    if isinstance(value, list):
        return [_clean(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {plain_text(key): _clean(each, depth + 1) for key, each in value.items()}
    return plain_text(value) if isinstance(value, str) else value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    if len(value) > _MAX_PARTS:
        raise ResultRefused(f"the result has {len(value):,} parts (limit {_MAX_PARTS:,})")
    return value


def _contents(parts: Any) -> tuple[McpContent, ...]:
    return tuple(map(read_content, _list(parts)))


def read_content(raw: Any) -> McpContent:
    if not isinstance(raw, dict):
        return McpContent("text", text="[a part that cannot be read]")
    mime_type = _line(raw.get("mimeType"), _MAX_LINE)
    match raw.get("type"):
        case "text":
            return McpContent("text", text=_text(raw.get("text")))
        case "image" | "audio" as kind:
            try:
                return McpContent(kind, data=_base64(raw.get("data")), mime_type=mime_type)
            except ValueError as error:
                return McpContent("text", text=f"[{kind}: {error}]")
        case "resource":
            return _resource_content(raw.get("resource"))
        case "resource_link":
            uri, name = _line(raw.get("uri"), _MAX_LINE), _line(raw.get("name"), _MAX_LINE)
            return McpContent("link", text=_text(raw.get("description")), uri=uri, name=name, mime_type=mime_type)
    return McpContent("text", text=f"[content of an unknown kind: {plain_line(str(raw.get('type')), 40)}]")


def _resource_content(raw: Any) -> McpContent:
    if not isinstance(raw, dict):
        return McpContent("text", text="[a resource that cannot be read]")
    uri, mime_type = _line(raw.get("uri"), _MAX_LINE), _line(raw.get("mimeType"), _MAX_LINE)
    if "blob" not in raw:
        return McpContent("resource", text=_text(raw.get("text")), mime_type=mime_type, uri=uri)
    try:
        return McpContent("resource", data=_base64(raw.get("blob")), mime_type=mime_type, uri=uri)
    except ValueError as error:
        return McpContent("text", text=f"[resource {uri}: {error}]")
