"""Validate setting values from JSON and environment variables. Pure."""

from __future__ import annotations

import re
from typing import Any

from agentcli.config.schema import Key

_NAMES = {
    "text": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "texts": "a list of strings",
    "object": "an object",
    "text map": "an object whose values are strings",
    "list map": "an object whose values are lists",
}
_HUGE = 10**15
"""Upper limit for numbers, which also excludes infinity and NaN."""
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_VARIABLE_NAME = re.compile(r"[^=\0]+")


class InvalidValue(Exception):
    """`str(error)` completes a sentence: "<key> must be …". Caught inside this package."""


def parse_value(key: Key, value: Any) -> Any:
    """Validate and convert a value (lists become tuples). Raises `InvalidValue`."""
    value = _typed(key, value)
    if key.choices and value not in key.choices:
        raise InvalidValue("one of " + ", ".join(key.choices))
    if key.kind in ("integer", "number"):
        if key.minimum is not None and value < key.minimum:
            raise InvalidValue(f"at least {key.minimum:g}")
        if key.maximum is not None and value > key.maximum:
            raise InvalidValue(f"at most {key.maximum:g}")
    return value


def _typed(key: Key, value: Any) -> Any:
    match key.kind, value:
        case "text", str():
            return value
        case "integer", int() if not isinstance(value, bool) and abs(value) < _HUGE:
            return value
        case "number", int() | float() if not isinstance(value, bool) and abs(value) < _HUGE:
            return float(value)
        case "boolean", bool():
            return value
        case "texts", list() | tuple() if all(isinstance(item, str) for item in value):
            return tuple(value)
        case "texts", str() if not key.merge:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        case "object", dict():
            return value
        case "list map", dict() if all(isinstance(item, list) for item in value.values()):
            return value
        case "text map", dict() if all(_is_variable(name, item) for name, item in value.items()):
            return value
        case _:
            raise InvalidValue(_NAMES[key.kind])


def parse_text(key: Key, text: str) -> Any:
    """Parse the value of an environment variable. Raises `InvalidValue`."""
    if key.kind == "boolean":
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise InvalidValue(_NAMES[key.kind])
    if key.kind in ("integer", "number"):
        try:
            number = int(text) if key.kind == "integer" else float(text)
        except ValueError:
            raise InvalidValue(_NAMES[key.kind]) from None
        return parse_value(key, number)
    return parse_value(key, text)


def _is_variable(name: Any, value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _VARIABLE_NAME.fullmatch(name) is not None
