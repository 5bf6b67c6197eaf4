"""The inputs of calls in the form of their tools' schemas. Each is asked for twice, and checked once."""

from __future__ import annotations

from copy import deepcopy

from agentcli.core.messages import Json, ToolUseBlock
from agentcli.tools.base import Tool
from agentcli.tools.schema import checked

Fitted = tuple[Json, list[str]]
"""An input in the form of a schema, and what is wrong with it."""


def fit_input(tool: Tool, given: Json, *, answered: bool = False) -> Fitted:
    """Some tools say better themselves what is wrong. The result shares nothing with `given`, which is part of the log
    and of every later request: a tool may change its own input.

    `answered`: the input comes with the user's answer, in which a tool may take more than it takes from the model.
    """
    if getattr(tool, "validates_itself", False):
        return deepcopy(given), []
    schema = getattr(tool, "answer_schema", tool.input_schema) if answered else tool.input_schema
    return checked(schema, deepcopy(given))


class FittedInputs:
    """Those of the model's own inputs whose calls have not begun."""

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
