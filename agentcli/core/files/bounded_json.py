"""Parse JSON from models, repositories and files with limits on depth and numbers.

JSON with hundreds of levels can be parsed, but code that later copies, compares, encodes or shows it may reach the
recursion limit. `1e999` becomes infinity, which JSON cannot represent; an integer of thousands of digits overflows in
arithmetic. All of it is refused here with a `ValueError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

DEEPEST = 100
"""Maximum nesting of objects and lists."""
DEEPEST_INPUT = 64
"""The same for a tool's input, which is nested some levels deeper in a session file and a request."""
_MOST_DIGITS = 300
"""Maximum digits of an integer: the range of a float."""
_FLAT = frozenset((str, int, float, bool, type(None)))


class JsonLimitError(ValueError):
    """Valid JSON beyond a limit; the message completes "the JSON …"."""


def parse_json(
    text: str | bytes,
    *,
    deepest: int = DEEPEST,
    most_digits: int = _MOST_DIGITS,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Raises `json.JSONDecodeError` for invalid JSON, another `ValueError` beyond a limit."""
    if isinstance(text, bytes):
        text = text.decode("utf-8" if text.startswith(b'{"') else json.detect_encoding(text), "surrogatepass")
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("Unexpected byte order mark", text, 0)
    decoder = _decoder(most_digits)
    if object_pairs_hook is not None:
        decoder = json.JSONDecoder(object_pairs_hook=object_pairs_hook, **number_limits(most_digits))
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise JsonLimitError(f"is nested more than {deepest} levels deep") from None
    if text.count("[") + text.count("{") > deepest and is_too_deep(value, deepest=deepest):
        raise JsonLimitError(f"is nested more than {deepest} levels deep")
    return value


def number_limits(most_digits: int = _MOST_DIGITS) -> dict[str, Any]:
    """Arguments of a `json.JSONDecoder` that refuses numbers beyond the limits."""

    def integer(digits: str) -> int:
        if len(digits) > most_digits:
            raise JsonLimitError(f"has a number of {len(digits):,} digits")
        return int(digits)

    return {"parse_int": integer, "parse_float": _number, "parse_constant": _refuse_constant}


@lru_cache(maxsize=4)
def _decoder(most_digits: int) -> json.JSONDecoder:
    """Made once: session files are parsed line by line."""
    return json.JSONDecoder(**number_limits(most_digits))


def is_too_deep(value: Any, *, deepest: int = DEEPEST) -> bool:
    """Whether lists and objects are nested more than `deepest` levels."""
    # Level by level: recursion could reach the limit that this protects.
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _depth in range(deepest):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            # Most values are flat, and this check needs no call.
            if inner.__class__ not in _FLAT and isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonLimitError(f"has a number that is too large: {digits[:40]}")
    return value


def _refuse_constant(name: str) -> Any:
    raise JsonLimitError(f"has {name}, which is not a number that JSON knows")
