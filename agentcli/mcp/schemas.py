"""Check the JSON schemas that servers send, and structured results against them.

Servers are untrusted, so the cost of a check is limited: schemas are limited in size, depth and list length, references
must be local, and patterns are not evaluated (a single one can take years). Runs in a thread, in Python code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_DIALECTS = frozenset(
    {"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"}
    | {"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2019-09/schema"}
)


def is_plain_schema(schema: Any) -> bool:
    """Whether a schema is certainly valid. If False, it may still be valid: it has a keyword unknown here."""
    if isinstance(schema, bool):
        return True
    return isinstance(schema, dict) and all(_is_valid(key, value) for key, value in schema.items())


def _is_valid(key: str, value: Any) -> bool:
    check = _CHECKS.get(key)
    return check(value) if check is not None else key.startswith("x-")


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return _are_names(value) and bool(value) and _TYPES.issuperset(value)
    return isinstance(value, str) and value in _TYPES


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "$schema": lambda value: isinstance(value, str) and value in _DIALECTS,
    "required": _are_names,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "examples": lambda value: isinstance(value, list),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        ("properties", "$defs", "definitions"),
        lambda value: isinstance(value, dict) and all(map(is_plain_schema, value.values())),
    ),
    **dict.fromkeys(("items", "additionalProperties", "not", "contains", "propertyNames"), is_plain_schema),
    **dict.fromkeys(("if", "then", "else"), is_plain_schema),
    **dict.fromkeys(
        ("anyOf", "oneOf", "allOf"),
        lambda value: isinstance(value, list) and bool(value) and all(map(is_plain_schema, value)),
    ),
    **dict.fromkeys(
        ("description", "title", "format", "pattern", "$ref", "$comment"), lambda value: isinstance(value, str)
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        lambda value: _is_number(value) and isinstance(value, int) and value >= 0,
    ),
    **dict.fromkeys(("uniqueItems", "readOnly"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("default", "const"), lambda _value: True),
}


MAX_SCHEMA_CHARS = 256 * 1024
_MAX_DEPTH = 48
_MAX_LIST = 2000
_MAX_STEPS = 20_000
_MAX_RULE_DEPTH = 120
"""Maximum nesting of rules. Each takes about five frames of Python's stack; when the stack is exhausted, a library
written in Rust panics with an exception that is not an `Exception`."""
_NODE_CHARS = 4
"""Characters that each value counts in addition to its text."""


class SchemaRefused(ValueError):
    """The message completes "its input schema …"."""


def clean_schema(schema: Any, most_chars: int = MAX_SCHEMA_CHARS) -> Json:
    """A copy of the schema without control characters. Raises `SchemaRefused` if it does not describe an object."""
    if not isinstance(schema, dict):
        raise SchemaRefused("is not an object")
    copy: Json = _Copier(most_chars).copy(schema, 0)
    if copy.setdefault("type", "object") != "object":
        raise SchemaRefused(f"describes {plain_line(str(copy['type']), 40)}, not an object")
    if is_plain_schema(copy):
        return copy
    try:
        reason = _against_metaschema(copy)
    except Exception as error:  # noqa: BLE001  a schema may provoke any error in the library that checks it
        raise SchemaRefused(f"cannot be checked ({type(error).__name__})") from None
    if reason:
        raise SchemaRefused(f"is not valid: {reason}")
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


def _against_metaschema(schema: Json) -> str:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    error = next(kind(kind.META_SCHEMA).iter_errors(schema), None)
    return "" if error is None else _worded(error)


def output_mismatch(schema: Json, value: Any) -> str:
    """Why a structured result does not match the output schema; empty if it does, or if checking takes too long."""
    if _has_key(schema, "patternProperties"):
        return ""
    try:
        error = next(_validator(schema).iter_errors(value), None)
    except _TooManyStepsError:
        return ""
    except Exception as error:  # noqa: BLE001  such as a reference to nothing, or one to itself
        return f"the output schema cannot be applied ({type(error).__name__})"
    return "" if error is None else _worded(error)


def _has_key(value: Any, wanted: str) -> bool:
    if isinstance(value, dict):
        return wanted in value or any(_has_key(inner, wanted) for inner in value.values())
    return isinstance(value, list) and any(_has_key(inner, wanted) for inner in value)


def _worded(error: Any) -> str:
    where = "/".join(map(str, error.absolute_path))
    return plain_line(f"{error.message} (at {where})" if where else error.message, 300)


class _TooManyStepsError(Exception):
    """The check was abandoned: schemas may require more steps than there are atoms."""


def _validator(schema: Json) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    effort = _Effort()
    rules: dict[str, Any] = {name: functools.partial(effort.counted, rule) for name, rule in kind.VALIDATORS.items()}
    rules |= dict.fromkeys(("pattern", "uniqueItems"), _no_errors)
    return extend(kind, rules)(schema, registry=Registry())  # type: ignore[no-untyped-call]


class _Effort:
    """Counts the steps of one check."""

    def __init__(self) -> None:
        self._steps = self._depth = 0

    def counted(self, rule: Callable[..., Iterator[Any] | None], validator: Any, *details: Any) -> Iterator[Any]:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooManyStepsError
        self._depth += 1
        if self._depth > _MAX_RULE_DEPTH:
            raise RecursionError
        yield from rule(validator, *details) or ()
        self._depth -= 1


def _no_errors(*_details: Any) -> Iterator[Any]:
    return iter(())
