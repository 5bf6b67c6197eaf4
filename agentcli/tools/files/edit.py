"""Edit and MultiEdit: replace text in a file, once or in several steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext, failure, object_schema, path_problem
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.edit_apply import Applied, EditProblem, Replacement, apply
from agentcli.tools.files.encoding import Decoded
from agentcli.tools.files.numbered_lines import make_legible
from agentcli.tools.files.write import written

EDIT_FIELDS: Json = {
    "old_string": {"type": "string", "description": "The exact text to replace"},
    "new_string": {"type": "string", "description": "What to put in its place"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence, not just a unique one"},
}


_FILE = {"type": "string", "description": "The file, absolute or relative to the project's root"}


class Edit(ChangingTool):
    name = "Edit"
    subject = "file_path"
    input_schema = object_schema(["file_path", "old_string", "new_string"], {"file_path": _FILE, **EDIT_FIELDS})

    def check(self, input: Json, context: ToolContext) -> str | None:
        return _edit_problem(input) or _file_problem(input["file_path"])

    def intent(self, input: Json) -> Intent:
        return _intent(input["file_path"], [input])


class MultiEdit(ChangingTool):
    name = "MultiEdit"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path", "edits"],
        {
            "file_path": _FILE,
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
            if problem := _edit_problem(edit):
                return f"Edit {number} of {len(input['edits'])}: {problem}"
        return _file_problem(input["file_path"])

    def intent(self, input: Json) -> Intent:
        return _intent(input["file_path"], input["edits"])


def _edit_problem(edit: Json) -> str | None:
    if edit["old_string"] == edit["new_string"]:
        return "old_string and new_string are equal: there is nothing to change."
    return None


def _file_problem(file_path: object) -> str | None:
    if isinstance(file_path, str) and file_path.endswith(".ipynb"):
        return "Notebooks are changed cell by cell: use NotebookEdit."
    return path_problem(file_path)


def _intent(file_path: str, edits: Sequence[Json]) -> Intent:
    """Apply all edits in order, or none. An empty old_string creates a file."""
    replacements = [
        Replacement(edit["old_string"], edit["new_string"], bool(edit.get("replace_all"))) for edit in edits
    ]

    def plan(present: Present) -> PlannedChange | Output:
        if len(edits) == 1 and not replacements[0].old and not present.text:
            return written(present, replacements[0].new)
        now, places, notes = present, list[Applied](), ""
        for number, edit in enumerate(replacements, 1):
            applied = apply(now.text, edit, present.shown) if edit.old else _create(now, edit)
            if isinstance(applied, EditProblem):
                return _report_failure(number, len(edits), applied)
            places.append(applied)
            prefix = f" Edit {number}: " if len(edits) > 1 else " "
            notes += f"{prefix}{applied.note}" if applied.note else ""
            now = replace(present, decoded=replace(present.decoded or Decoded(""), text=applied.text))
        assert now.decoded is not None
        data = now.decoded.encode(now.text)
        if data is None:
            return _report_lacking(present.shown, now.decoded, now.text)
        return PlannedChange(data, now.text, f"{_describe_edits(present, places)}.{notes}")

    return Intent(file_path, plan, create=not replacements[0].old)


def _create(present: Present, edit: Replacement) -> Applied | EditProblem:
    if not present.text:
        return Applied(edit.new, 1, 1)
    return EditProblem(
        f"old_string is empty, but {present.shown} is not. Give the text to replace; to add something, replace the "
        "line before it by itself and the addition.",
        "failed",
    )


def _report_lacking(shown: str, decoded: Decoded, text: str) -> Output:
    lacking = make_legible(decoded.list_lacking(text))
    return failure(
        f"{shown} is {decoded.unusual or 'UTF-8'}, which lacks some characters of new_string: {lacking}. Write them "
        "otherwise, or convert the file first."
    )


def _describe_edits(present: Present, places: Sequence[Applied]) -> str:
    count = sum(applied.count for applied in places)
    if len(places) == 1:
        return f"Edited {present.shown} " + (f"in {count} places" if count > 1 else f"at line {places[0].line}")
    done = f"Edited {present.shown} in {counted(count, 'place')}" if present.text else f"Created {present.shown}"
    return f"{done}, by {counted(len(places), 'edit')}"


def _report_failure(number: int, count: int, problem: EditProblem) -> Output:
    if count == 1:
        return failure(problem.text, summary=problem.summary)
    after = " (line numbers are those after the edits before it)" if number > 1 else ""
    text = f"Edit {number} of {count} failed, so none was made{after}. {problem.text}"
    return failure(text, summary=f"edit {number} of {count}: {problem.summary}")
