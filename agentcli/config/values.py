"""Whether a value fits its key. Pure: takes what JSON or a variable gave, returns the value to use or what is wrong."""

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
}
_HUGE = 10**15
"""No setting means more; beyond it numbers only break arithmetic. Infinity and NaN are not below it either."""
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_VARIABLE_NAME = re.compile(r"[^=\0]+")


class Unfit(Exception):
    """`str(error)` completes a sentence: "<key> must be …". Caught inside this package."""


def fit(key: Key, value: Any) -> Any:
    """The value in the form the program uses (lists become tuples); raises `Unfit`."""
    value = _typed(key, value)
    if key.choices and value not in key.choices:
        raise Unfit("one of " + ", ".join(key.choices))
    if key.kind in ("integer", "number"):
        if key.minimum is not None and value < key.minimum:
            raise Unfit(f"at least {key.minimum:g}")
        if key.maximum is not None and value > key.maximum:
            raise Unfit(f"at most {key.maximum:g}")
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
        case "text map", dict() if all(_is_variable(name, item) for name, item in value.items()):
            return value
        case _:
            raise Unfit(_NAMES[key.kind])


def fit_text(key: Key, text: str) -> Any:
    """The value of an environment variable; raises `Unfit`."""
    if key.kind == "boolean":
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise Unfit(_NAMES[key.kind])
    if key.kind in ("integer", "number"):
        try:
            number = int(text) if key.kind == "integer" else float(text)
        except ValueError:
            raise Unfit(_NAMES[key.kind]) from None
        return fit(key, number)
    return fit(key, text)


def _is_variable(name: Any, value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _VARIABLE_NAME.fullmatch(name) is not None
