"""StructuredOutput: end a submission with an object that conforms to a JSON schema.

Needs all of JSON Schema, so this is the only module that uses the `jsonschema` package, imported with the first object.
"""

from __future__ import annotations

from typing import Any

from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.tools.base import Output, ToolContext, ToolRun

NAME = "StructuredOutput"
_MAX_ERRORS = 5
_WRAPPED = "value"


class StructuredOutput:
    name = NAME
    description = (
        "Gives your final answer as data. Call it exactly once, when the work is done, with an object that matches the "
        "schema; the answer in words is not read."
    )
    main_agent_only = True
    max_repeats = 20
    """Wrong output has its own limit and subtype in the result."""
    validates_itself = True
    """Tells the caller not to check the input against `input_schema`; this tool reports problems itself."""

    def __init__(self, schema: Json) -> None:
        # The API accepts only objects as input; any other type is wrapped in one.
        self._wrapped = schema.get("type", "object") != "object"
        self.input_schema: Json = (
            {"type": "object", "properties": {_WRAPPED: schema}, "required": [_WRAPPED], "additionalProperties": False}
            if self._wrapped
            else {"type": "object", **schema}
        )

    def title(self, input: Json) -> str:
        return "Structured answer"

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        found = _errors(self.input_schema, input)
        if found:
            text = f"Output does not match required schema: {'; '.join(found)}"
            yield Output(text, is_error=True, summary="does not match")
            return
        value = input[_WRAPPED] if self._wrapped else input
        yield Output("The answer was taken.", summary="matches", structured=value, final=value)


def schema_problem(schema: Any) -> str | None:
    """What is wrong with a schema, for the user; None if it is valid."""
    if not isinstance(schema, dict):
        return "A JSON schema must be an object."
    import jsonschema

    try:
        jsonschema.validators.validator_for(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        where = "/".join(str(part) for part in error.absolute_path)
        return f"Not a JSON schema: {f'at {where}: ' if where else ''}{error.message[:200]}"
    return None


def _errors(schema: Json, value: Any) -> list[str]:
    import jsonschema

    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    found: list[str] = []
    for error in sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]):
        where = "/" + "/".join(str(part) for part in error.absolute_path)
        found.append(f"{where}: {str(error.message)[:200]}")
    if len(found) > _MAX_ERRORS:
        found[_MAX_ERRORS:] = [f"and {len(found) - _MAX_ERRORS} more"]
    return found
