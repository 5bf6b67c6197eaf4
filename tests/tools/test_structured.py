from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.core.aio import AbortController
from agentcli.tools.base import Output
from agentcli.tools.structured import StructuredOutput, schema_problem
from tests.tools.running import context_in, text_of

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"enum": ["a", "b"]}}, "required": ["n"]}


async def answered(tool: StructuredOutput, value: Any, folder: Path) -> Output:
    outputs = [event async for event in tool.run(value, context_in(folder), AbortController().signal)]
    assert isinstance(outputs[-1], Output)
    return outputs[-1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"n": "x"}, "/n: 'x' is not of type 'integer'"),
        ({}, "/: 'n' is a required property"),
        ({"n": 1, "m": "c"}, "/m: 'c' is not one of ['a', 'b']"),
    ],
)
async def test_an_invalid_object_is_answered_with_its_errors(value: Any, expected: str, tmp_path: Path) -> None:
    output = await answered(StructuredOutput(SCHEMA), value, tmp_path)
    assert output.is_error
    assert output.final is None
    assert text_of(output) == f"Output does not match required schema: {expected}"


async def test_a_valid_object_ends_the_submission(tmp_path: Path) -> None:
    output = await answered(StructuredOutput(SCHEMA), {"n": 1}, tmp_path)
    assert (output.is_error, output.final, output.structured) == (False, {"n": 1}, {"n": 1})


async def test_a_schema_that_is_no_object_is_wrapped_in_one(tmp_path: Path) -> None:
    tool = StructuredOutput({"type": "array", "items": {"type": "integer"}})
    assert tool.input_schema["type"] == "object"
    assert (await answered(tool, {"value": [1, 2]}, tmp_path)).final == [1, 2]
    assert "/value/0: 'x' is not of type" in text_of(await answered(tool, {"value": ["x"]}, tmp_path))


async def test_many_errors_are_counted(tmp_path: Path) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    output = await answered(StructuredOutput(schema), {f"k{number}": "x" for number in range(9)}, tmp_path)
    assert text_of(output).endswith("and 4 more")


def test_an_invalid_schema_is_refused() -> None:
    assert schema_problem(SCHEMA) is None
    assert schema_problem([]) == "A JSON schema must be an object."
    assert "Not a JSON schema" in str(schema_problem({"type": "nonsense"}))
