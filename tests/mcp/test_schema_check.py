"""Schemas of servers, and results against them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from agentcli.mcp import schemas
from agentcli.mcp.schemas import _CHECKS, _DIALECTS, SchemaRefused, clean_schema, is_plain_schema, output_mismatch
from tests.support.tables import each_row


def test_a_schema_is_copied_without_control_characters() -> None:
    schema = {"properties": {"a": {"type": "string", "description": "\x1b[31mred", "enum": ["x", 1, None]}}}
    assert clean_schema(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "red", "enum": ["x", 1, None]}},
    }


@each_row(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}},
        {"type": "object", "$schema": "https://example.com/unknown"},
    ],
)
def test_usual_schemas_are_accepted(schema: dict[str, Any]) -> None:
    assert clean_schema(schema) == schema


@each_row(
    ("schema", "reason"),
    [
        (None, "is not an object"),
        ({"type": ["object", "null"]}, "not an object"),
        ({"type": "object", "$schema": ["x"]}, "cannot be checked"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "refers to other.json"),
        ({"type": "object", "properties": {"a\x1b": {}}}, "has a name with control characters"),
        ({"type": "object", "properties": 3}, "is not valid: 3 is not of type 'object'"),
        ({"type": "object", "title": "x" * 300_000}, "is larger than 256 KB"),
    ],
)
def test_others_are_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        clean_schema(schema)
    assert reason in str(refused.value)


@each_row(
    ("schema", "value", "mismatch"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, ""),
        ({"type": "object", "required": ["a"]}, {}, "'a' is a required property"),
        ({"type": "object"}, [1], "[1] is not of type 'object'"),
        ({"type": "object", "$ref": "#"}, {}, "the output schema cannot be applied (RecursionError)"),
        ({"type": "object", "$ref": "#/none"}, {}, "the output schema cannot be applied (_WrappedReferencingError)"),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50 + "!"}, ""),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 50 + "!": 1}, ""),
    ],
)
def test_results_are_checked(schema: dict[str, Any], value: Any, mismatch: str) -> None:
    assert output_mismatch(schema, value) == mismatch


def test_a_schema_that_refers_to_itself_is_given_up_far_from_the_end_of_the_stack() -> None:
    """Where it ends, the library's part in Rust panics."""

    def depth_left(frames: int) -> str:
        return depth_left(frames - 1) if frames else output_mismatch({"type": "object", "$ref": "#"}, {})

    assert depth_left(250).endswith("(RecursionError)")


def test_results_as_deep_as_trees_usually_are_can_be_checked() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["name"]}
    tree: dict[str, Any] = {}
    for _level in range(40):
        tree = {"name": "x", "child": tree}
    assert output_mismatch(schema, tree).startswith("'name' is a required property")


KEYWORDS = sorted(_CHECKS)
JUNK = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["string", "object", "a"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    JUNK | st.dictionaries(st.sampled_from(KEYWORDS), JUNK),
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), SCHEMAS, max_size=4), st.sampled_from(sorted(_DIALECTS)))
def test_what_is_recognised_as_valid_is_valid(schema: dict[str, Any], dialect: str) -> None:
    schema["$schema"] = dialect
    if is_plain_schema(schema):
        validator_for(schema).check_schema(schema, format_checker=None)


def test_usual_schemas_need_no_metaschema() -> None:
    field = {"type": ["string", "null"], "enum": ["a", None], "default": None, "minLength": 1, "description": "x"}
    items = {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "number", "minimum": 0}]}}
    schema = {"type": "object", "properties": {"a": field, "b": items}, "required": ["a"], "$defs": {"a": field}}
    assert is_plain_schema(schema)
    assert not is_plain_schema({**schema, "dependentRequired": {}})


def test_a_check_with_too_many_steps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_MAX_STEPS", 1_000)
    schema: dict[str, Any] = {"$defs": {"0": {"type": "string"}}, "$ref": "#/$defs/40"}
    for level in range(1, 41):
        schema["$defs"][str(level)] = {"anyOf": [{"$ref": f"#/$defs/{level - 1}"}] * 2}
    assert output_mismatch(schema, 1) == ""
