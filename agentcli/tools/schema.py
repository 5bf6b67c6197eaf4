"""The subset of JSON Schema that tool inputs need: readable problems, and coercion of harmless mistakes.

Not `jsonschema`: it takes a tenth of a second to import, and its messages do not help a model. Unknown keywords never
make a value invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.format import counted

_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_CLASSES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def problems(schema: Mapping[str, Any], value: object, path: str = "") -> list[str]:
    """Messages such as `limit: must be an integer`; empty if the value is valid."""
    if not isinstance(schema, Mapping):
        return []  # `true` is a valid schema
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        if any(not problems(option, value, path) for option in options):
            return []
        kinds = [_NAMES.get(str(option.get("type")), "") for option in options]
        if all(kinds):
            return [_at(path, f"must be {' or '.join(kinds)}")]
        return problems(options[0], value, path)
    expected = schema.get("type")
    allowed: list[Any] = expected if isinstance(expected, list) else [expected]
    if expected is not None and not any(_is_a(kind, value) for kind in allowed):
        return [_at(path, f"must be {' or '.join(_NAMES.get(str(kind), str(kind)) for kind in allowed)}")]
    if "const" in schema and value != schema["const"]:
        return [_at(path, f"must be {schema['const']!r}")]
    if "enum" in schema and value not in schema["enum"]:
        return [_at(path, f"must be one of {', '.join(map(str, schema['enum']))}")]
    found = _bounds(schema, value, path)
    if isinstance(value, dict):
        found += _members(schema, value, path)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            found += problems(schema["items"], item, f"{path}[{index}]")
    return found


def coerce(schema: Mapping[str, Any], value: Any) -> Any:
    """Correct unambiguous mistakes: "5" for 5, "true" for true. Never changes `value` itself."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if isinstance(value, str):
        if kind == "integer" and re.fullmatch(r"\s*-?\d{1,18}\s*", value):
            return int(value)
        if kind == "number" and re.fullmatch(r"\s*-?\d{1,18}(?:\.\d{1,18})?\s*", value):
            return float(value)
        if kind == "boolean" and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        return value
    if kind == "integer" and isinstance(value, float) and value.is_integer() and abs(value) < 1e18:
        return int(value)
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        known = schema["properties"]
        required = schema.get("required", ())
        return {
            name: coerce(known.get(name, {}), item)
            for name, item in value.items()
            # Some models write null for omitted fields.
            if not (item is None and name in known and name not in required and not _is_nullable(known[name]))
        }
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [coerce(schema["items"], item) for item in value]
    return value


def checked(schema: Mapping[str, Any], value: Json) -> tuple[Json, list[str]]:
    fitted = coerce(schema, value)
    return fitted, problems(schema, fitted)


def _at(path: str, text: str) -> str:
    return f"{path.lstrip('.') or 'input'}: {text}"


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    options = schema.get("anyOf") or schema.get("oneOf") or ()
    return (
        kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind) or any(map(_is_nullable, options))
    )


def _is_a(kind: object, value: object) -> bool:
    expected = _CLASSES.get(str(kind), object)
    return isinstance(value, expected) and (expected is object or (kind == "boolean") == isinstance(value, bool))


def _bounds(schema: Mapping[str, Any], value: object, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            found.append(_at(path, f"must be at least {schema['minimum']}"))
        if "maximum" in schema and value > schema["maximum"]:
            found.append(_at(path, f"must be at most {schema['maximum']}"))
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            found.append(_at(path, "must not be empty" if schema["minLength"] == 1 else "is too short"))
        if len(value) > schema.get("maxLength", len(value)):
            found.append(_at(path, f"must have at most {counted(schema['maxLength'], 'character')}"))
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(_at(path, f"must have at least {counted(schema['minItems'], 'item')}"))
        if len(value) > schema.get("maxItems", len(value)):
            found.append(_at(path, f"must have at most {counted(schema['maxItems'], 'item')}"))
    return found


def _members(schema: Mapping[str, Any], value: Json, path: str) -> list[str]:
    known = schema.get("properties", {})
    found = [_at(f"{path}.{name}", "required") for name in schema.get("required", ()) if name not in value]
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            found += problems(known[name], item, f"{path}.{name}")
        elif rest is False:
            found.append(_at(f"{path}.{name}", f"unknown; known are {', '.join(known) or 'none'}"))
        elif isinstance(rest, dict):
            found += problems(rest, item, f"{path}.{name}")
    return found
