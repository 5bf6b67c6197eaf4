"""Check the JSON schemas of tools that servers send, before they reach the API, which refuses a request with a bad one.

Servers are untrusted, so schemas are limited in size, depth and list length, and references must be local. The keywords
of draft 2020-12 are checked by a table: a hundred times faster than a validator with the metaschema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text

MAX_SCHEMA_CHARS = 256 * 1024
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
