"""Edit and MultiEdit: replace text in a file, once or in several steps."""

from __future__ import annotations

from dataclasses import replace

from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import failure, object_schema, path_problem
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.edit_apply import Applied, EditProblem, Replacement, apply
from agentcli.tools.files.encoding import Decoded
from agentcli.tools.files.numbered_lines import legible
from agentcli.tools.files.write import written

EDIT_FIELDS: Json = {
    "old_string": {"type": "string", "description": "The exact text to replace"},
    "new_string": {"type": "string", "description": "What to put in its place"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence, not just a unique one"},
}


class Edit(ChangingTool):
    name = "Edit"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path", "old_string", "new_string"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the project's root"},
            **EDIT_FIELDS,
        },
    )

    def check(self, input: Json, context: ToolContext) -> str | None:
        return edit_problem(input) or editable_problem(input["file_path"])

    def intent(self, input: Json) -> Intent:
        replacement = replacement_of(input)

        def plan(present: Present) -> PlannedChange | Output:
            if not replacement.old:
                return creation(present, replacement.new)
            assert present.decoded is not None
            applied = apply(present.text, replacement, present.shown)
            if isinstance(applied, EditProblem):
                return failure(applied.text, summary=applied.summary)
            return _change(present, applied)

        return Intent(input["file_path"], plan, create=not replacement.old)


def edit_problem(edit: Json) -> str | None:
    if edit["old_string"] == edit["new_string"]:
        return "old_string and new_string are equal: there is nothing to change."
    return None


def editable_problem(file_path: object) -> str | None:
    if isinstance(file_path, str) and file_path.endswith(".ipynb"):
        return "Notebooks are changed cell by cell: use NotebookEdit."
    return path_problem(file_path)


def replacement_of(edit: Json) -> Replacement:
    return Replacement(edit["old_string"], edit["new_string"], bool(edit.get("replace_all")))


def creation(present: Present, content: str) -> PlannedChange | Output:
    """Create a file from an edit with an empty old_string: the file must be missing or empty."""
    if present.text:
        return failure(
            f"old_string is empty, but {present.shown} is not. Give the text to replace; to add something, replace the "
            "line before it by itself and the addition."
        )
    return written(present, content)


def encoded(present: Present, text: str) -> bytes | Output:
    assert present.decoded is not None
    data = present.decoded.encode(text)
    if data is not None:
        return data
    name = present.decoded.unusual or "UTF-8"
    lacking = legible(present.decoded.lacking(text))
    return failure(
        f"{present.shown} is {name}, which lacks some characters of new_string: {lacking}. Write them otherwise, or "
        "convert the file first."
    )


def _change(present: Present, applied: Applied) -> PlannedChange | Output:
    data = encoded(present, applied.text)
    if isinstance(data, Output):
        return data
    where = f"in {applied.count} places" if applied.count > 1 else f"at line {applied.line}"
    note = f" {applied.note}" if applied.note else ""
    return PlannedChange(data, applied.text, f"Edited {present.shown} {where}.{note}")


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
