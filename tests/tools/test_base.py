from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from agentcli.tools.base import BuiltinTool, check_input, coerce, find_problems
from agentcli.tools.registry import builtin_tools
from tests.support.tables import each_row

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10},
        "ratio": {"type": "number"},
        "all": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "nested": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
    "required": ["file_path"],
    "additionalProperties": False,
}


def test_schemas_that_are_true_or_false_check_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": True, "b": {"anyOf": [True]}, "c": False}}
    assert check_input(schema, {"a": 1, "b": None, "c": "x"}) == ({"a": 1, "b": None, "c": "x"}, [])


@each_row(
    ("value", "expected"),
    [
        ({"file_path": "a"}, []),
        ({}, ["file_path: required"]),
        ([], ["input: must be an object"]),
        ({"file_path": 1}, ["file_path: must be a string"]),
        ({"file_path": ""}, ["file_path: must not be empty"]),
        ({"file_path": "a", "limit": 1.5}, ["limit: must be an integer"]),
        ({"file_path": "a", "limit": True}, ["limit: must be an integer"]),
        ({"file_path": "a", "limit": 0}, ["limit: must be at least 1"]),
        ({"file_path": "a", "limit": 11}, ["limit: must be at most 10"]),
        ({"file_path": "a", "ratio": 2}, []),
        ({"file_path": "a", "all": 1}, ["all: must be true or false"]),
        ({"file_path": "a", "mode": "c"}, ["mode: must be one of a, b"]),
        ({"file_path": "a", "tags": ["x", 2]}, ["tags[1]: must be a string"]),
        ({"file_path": "a", "tags": []}, ["tags: must have at least 1 item"]),
        ({"file_path": "a", "either": None}, []),
        ({"file_path": "a", "either": 3}, ["either: must be a string or null"]),
        ({"file_path": "a", "nested": {"x": "y"}}, ["nested.x: must be an integer"]),
        ({"file_path": "a", "nested": {}}, ["nested.x: required"]),
        ({"file_path": "a", "typo": 1}, [f"typo: unknown; known are {', '.join(SCHEMA['properties'])}"]),
    ],
)
def test_problems_are_described_in_words(value: Any, expected: list[str]) -> None:
    assert find_problems(SCHEMA, value) == expected


def test_harmless_mistakes_are_corrected_in_a_copy() -> None:
    value = {
        "file_path": "5",
        "limit": "5",
        "ratio": "0.5",
        "all": "True",
        "nested": {"x": " 7 "},
        "tags": ["1"],
        "mode": None,
    }
    before = copy.deepcopy(value)
    assert coerce(SCHEMA, value) == {
        "file_path": "5", "limit": 5, "ratio": 0.5, "all": True, "nested": {"x": 7}, "tags": ["1"],
    }  # fmt: skip
    assert value == before


@each_row("value", ["five", "5.5", "", "1e9", "0x10", "9" * 30])
def test_text_that_is_not_clearly_a_number_stays_unchanged(value: str) -> None:
    assert coerce({"type": "integer"}, value) == value


def test_unknown_keywords_are_ignored() -> None:
    assert find_problems({"type": "object", "$ref": "#/x", "patternProperties": {}}, {"a": 1}) == []


def test_the_built_in_schemas_use_supported_keywords_only() -> None:
    known = {"type", "properties", "required", "additionalProperties", "description", "enum", "minimum", "maximum"}
    known |= {"minLength", "maxLength", "items", "minItems", "maxItems"}

    def inside(schema: Any) -> None:
        assert set(schema) <= known
        for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
            inside(inner)

    for tool in builtin_tools():
        inside(tool.input_schema)


def test_a_tool_without_a_description_names_the_file_that_is_missing() -> None:
    class FileSize(BuiltinTool):
        name = "FileSize"

    with pytest.raises(FileNotFoundError, match="FileSize has no description") as failed:
        _ = FileSize().description
    assert str(failed.value).endswith(str(Path(__file__).with_name("filesize.md")))
