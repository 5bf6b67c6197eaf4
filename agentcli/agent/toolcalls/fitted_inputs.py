"""Inputs of calls, converted to fit their tools' schemas. Each is needed twice but checked once."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

from agentcli.core.messages import Json, ToolUseBlock
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.schema import checked

Fitted = tuple[Json, list[str]]
"""A converted input and the problems found in it."""


def fit_input(tool: Tool, given: Json, *, answered: bool = False) -> Fitted:
    """Convert and check an input, unless the tool validates itself because it explains problems better. The result
    shares nothing with `given`, which is part of the log and of every later request: a tool may modify its input.

    `answered`: the input comes with the user's answer, in which a tool may accept more than from the model.
    """
    if getattr(tool, "validates_itself", False):
        return deepcopy(given), []
    schema = getattr(tool, "answer_schema", tool.input_schema) if answered else tool.input_schema
    return checked(schema, deepcopy(given))


def observed_input(tool: Tool | None, input: Json, context: ToolContext) -> Json:
    """An input as hooks and other programs see it: with the fields that the tool derives from it (T9)."""
    derive = getattr(tool, "observed", None)
    try:
        return input if derive is None else cast(Json, derive(input, context))
    except Exception:  # noqa: BLE001 - an input that does not fit the tool is shown as it is
        return input


def without_derived(updated: Json, input: Json, observed: Json) -> Json:
    """A hook's change of an observed input, without the fields that only the observation added."""
    return {
        name: value
        for name, value in updated.items()
        if name in input or name not in observed or observed[name] != value
    }


class FittedInputs:
    """Converted inputs of calls that have not begun."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Tool, ToolUseBlock, Fitted]] = {}

    def look(self, tool: Tool, call: ToolUseBlock) -> Fitted:
        fitted = fit_input(tool, call.input)
        self._waiting[call.id] = (tool, call, fitted)
        return fitted

    def take(self, tool: Tool, call: ToolUseBlock) -> Fitted:
        known = self._waiting.pop(call.id, None)
        if known is not None and known[0] is tool and known[1] is call:
            return known[2]
        return fit_input(tool, call.input)
