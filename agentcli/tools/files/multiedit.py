"""MultiEdit: several replacements in one file, one after the other, all of them or none."""

from __future__ import annotations

from dataclasses import replace

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import failure, object_schema
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.edit import (
    EDIT_FIELDS,
    creation,
    edit_problem,
    editable_problem,
    encoded,
    replacement_of,
)
from agentcli.tools.files.edit_apply import Applied, EditProblem, Replacement, apply
from agentcli.tools.files.encoding import Decoded


class MultiEdit(ChangingTool):
    name = "MultiEdit"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path", "edits"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the project's root"},
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": object_schema(["old_string", "new_string"], EDIT_FIELDS),
                "description": "Applied in this order, each to what the ones before have made",
            },
        },
    )

    def title(self, input: Json) -> str:
        edits = input.get("edits")
        count = f" ({len(edits)} edits)" if isinstance(edits, list) and len(edits) != 1 else ""
        return plain_line(f"{super().title(input)}{count}")

    def check(self, input: Json, context: ToolContext) -> str | None:
        for number, edit in enumerate(input["edits"], 1):
            if problem := edit_problem(edit):
                return f"Edit {number} of {len(input['edits'])}: {problem}"
        return editable_problem(input["file_path"])

    def intent(self, input: Json) -> Intent:
        edits = [replacement_of(edit) for edit in input["edits"]]

        def plan(present: Present) -> PlannedChange | Output:
            now = present
            places, notes = 0, []
            for number, edit in enumerate(edits, 1):
                applied = apply(now.text, edit, present.shown) if edit.old else _first(now, edit)
                if isinstance(applied, EditProblem):
                    return _failed(number, len(edits), applied)
                places += applied.count
                notes += [f" Edit {number}: {applied.note}"] if applied.note else []
                now = replace(present, decoded=replace(present.decoded or Decoded(""), text=applied.text))
            data = encoded(now, now.text)
            if isinstance(data, Output):
                return data
            done = f"Edited {present.shown} in {counted(places, 'place')}" if present.text else ""
            message = done or f"Created {present.shown}"
            return PlannedChange(data, now.text, f"{message}, by {counted(len(edits), 'edit')}.{''.join(notes)}")

        return Intent(input["file_path"], plan, create=not edits[0].old)


def _first(present: Present, edit: Replacement) -> Applied | EditProblem:
    made = creation(present, edit.new)
    return EditProblem(str(made.content), made.summary) if isinstance(made, Output) else Applied(made.text, 1, 1)


def _failed(number: int, count: int, problem: EditProblem) -> Output:
    counted = " (line numbers are those after the edits before it)" if number > 1 else ""
    text = f"Edit {number} of {count} failed, so none was made{counted}. {problem.text}"
    return failure(text, summary=f"edit {number} of {count}: {problem.summary}")
