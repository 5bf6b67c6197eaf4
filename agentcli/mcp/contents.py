"""Convert the lists and results of servers to our own types: cleaned and limited.

The schemas of tools are checked before they reach the API, which refuses a request with a bad one: they are limited in
size, depth and list length, and references must be local. The keywords of draft 2020-12 are checked by a table: a
hundred times faster than a validator with the metaschema.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from agentcli.core.files.access import MAX_INPUT_DEPTH
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text, spell_hidden
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

MAX_RESULT_KEY = "anthropic/maxResultSizeChars"
Refused = tuple[str, str]
"""A name, and why it cannot be used."""
MAX_NAME = 128
_MAX_DESCRIPTION = 16 * 1024
_MAX_TITLE = 200
_MAX_URI = 4096
_MAX_REFUSED = 100
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_SCHEMA_CHARS = 256 * 1024
_MAX_ALL_SCHEMAS = 16 * MAX_SCHEMA_CHARS
"""Maximum characters of all schemas in one response."""
T = TypeVar("T")


def clean_text(value: Any, limit: int) -> str:
    """A server's text without control characters, with hidden ones spelled out, cut at `limit`; empty if not a text."""
    if not isinstance(value, str):
        return ""
    text = spell_hidden(plain_text(value[: limit * 2]))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_tools(result: Json) -> tuple[list[ToolOffer], list[Refused]]:
    left = _MAX_ALL_SCHEMAS
    found: list[ToolOffer] = []
    refused: list[Refused] = []
    for number, raw in enumerate(_entries(result, "tools")):
        name = raw.get("name") if isinstance(raw, dict) else None
        shown = plain_line(name, MAX_NAME) if isinstance(name, str) and name else f"tool {number + 1}"
        reason = "it is not an object" if not isinstance(raw, dict) else _bad_name(name)
        if not reason:
            try:
                tool, used = _tool(raw, min(left, MAX_SCHEMA_CHARS))
                found.append(tool)
                left -= used
            except SchemaRefused as error:
                reason = str(error)
        if reason and len(refused) < _MAX_REFUSED:
            refused.append((shown, reason))
    return found, refused


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


def _read(key: str, convert: Callable[[Json], T | None], result: Json) -> list[T]:
    """Convert the entries of a list. Unusable ones are left out."""
    found = (convert(raw) for raw in _entries(result, key) if isinstance(raw, dict))
    return [each for each in found if each is not None]


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


def read_call(result: Json) -> McpResult:
    content = _contents(result.get("content", []))
    return McpResult(content, _clean(result.get("structuredContent")), result.get("isError") is True)


def read_resource(result: Json) -> tuple[McpContent, ...]:
    return tuple(map(_resource_content, _list(result["contents"])))


def read_messages(result: Json) -> tuple[PromptMessage, ...]:
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
    if depth > MAX_INPUT_DEPTH:
        raise ResultRefused(f"the result is nested more than {MAX_INPUT_DEPTH} levels deep")
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


# ------------------------------------------------------------------------------------------------------- schemas

_MAX_DEPTH = 48
_MAX_LIST = 2000
_NODE_CHARS = 4
"""Characters that each value counts in addition to its text."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


class SchemaRefused(ValueError):
    """The message completes "its input schema …"."""


def clean_schema(schema: Any, most_chars: int = MAX_SCHEMA_CHARS) -> Json:
    """A copy of the schema without control characters. Raises `SchemaRefused` if it does not describe an object."""
    if not isinstance(schema, dict):
        raise SchemaRefused("is not an object")
    copy: Json = _Copier(most_chars).copy(schema, 0)
    if copy.setdefault("type", "object") != "object":
        raise SchemaRefused(f"describes {plain_line(str(copy['type']), 40)}, not an object")
    if bad := _bad_keyword(copy):
        raise SchemaRefused(f"is not valid: {bad}")
    return copy


class _Copier:
    def __init__(self, most_chars: int) -> None:
        self._most = most_chars
        self._left = most_chars

    def copy(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise SchemaRefused(f"is nested more than {_MAX_DEPTH} levels deep")
        self._count(_NODE_CHARS)
        if isinstance(value, str):
            self._count(len(value))
            return plain_text(value)
        if isinstance(value, list):
            if len(value) > _MAX_LIST:
                raise SchemaRefused(f"has a list of {len(value):,} values (limit {_MAX_LIST:,})")
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._key(key, inner): self.copy(inner, depth + 1) for key, inner in value.items()}
        return value

    def _key(self, key: str, value: Any) -> str:
        self._count(len(key))
        if plain_text(key) != key:
            raise SchemaRefused("has a name with control characters")
        if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str) and not value.startswith("#"):
            raise SchemaRefused(f"refers to {plain_line(value, 80)}; only local references are allowed")
        return key

    def _count(self, chars: int) -> None:
        self._left -= chars
        if self._left < 0:
            raise SchemaRefused(f"is larger than {self._most // 1024} KB")


def _bad_keyword(schema: Any) -> str:
    """The first keyword with an invalid value, as text; "" if there is none. Unknown keywords are allowed."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"{plain_line(repr(schema), 40)} is not a schema"
    for key, value in schema.items():
        found = _bad_keyword_in(key, value)
        if found:
            return found
    return ""


def _bad_keyword_in(key: str, value: Any) -> str:
    inner: list[Any] = []
    if key in _SCHEMA:
        inner = [value]
    elif key in _SCHEMA_LISTS and isinstance(value, list) and value:
        inner = value
    elif key in _SCHEMA_MAPS and isinstance(value, dict):
        inner = list(value.values())
    elif not _CHECKS.get(key, lambda _value: True)(value):
        return f"{key} is {plain_line(repr(value), 40)}"
    return next(filter(None, map(_bad_keyword, inner)), "")


def _is_type(value: Any) -> bool:
    return value in _TYPES if isinstance(value, str) else _are_names(value) and bool(value) and _TYPES.issuperset(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_SCHEMA = frozenset({"items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _are_names,
    "enum": lambda value: isinstance(value, list),
    "examples": lambda value: isinstance(value, list),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    **dict.fromkeys((*_SCHEMA_LISTS, *_SCHEMA_MAPS), lambda _value: False),
    **dict.fromkeys(("$schema", "description", "title", "format", "pattern", "$ref", "$comment"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), lambda value: isinstance(value, bool)),
}
"""Checks of keywords without schemas in them, and of wrong kinds of values for those with."""
