"""Schemas of servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentcli.mcp.contents import _CHECKS, _SCHEMA, SchemaRefused, _bad_keyword, clean_schema
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
        ({"type": "object", "$schema": ["x"]}, "is not valid: $schema"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "refers to other.json"),
        ({"type": "object", "properties": {"a\x1b": {}}}, "has a name with control characters"),
        ({"type": "object", "properties": 3}, "is not valid: properties is 3"),
        ({"type": "object", "title": "x" * 300_000}, "is larger than 256 KB"),
    ],
)
def test_others_are_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        clean_schema(schema)
    assert reason in str(refused.value)


KEYWORDS = sorted({*_CHECKS, *_SCHEMA})
METASCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)
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


@given(st.dictionaries(st.sampled_from(KEYWORDS), SCHEMAS, max_size=4))
def test_what_is_accepted_is_what_the_metaschema_accepts(schema: dict[str, Any]) -> None:
    assert (_bad_keyword(schema) == "") == (next(METASCHEMA.iter_errors(schema), None) is None)
