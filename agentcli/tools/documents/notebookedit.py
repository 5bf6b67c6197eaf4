"""NotebookEdit: replace, insert or delete one cell of a Jupyter notebook, which keeps its indentation and escapes."""

from __future__ import annotations

import json
import os
import re

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext, failure, object_schema
from agentcli.tools.documents.notebook import cell_id, parse_notebook, source_of
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.diff import diff_display
from agentcli.tools.files.numbered_lines import make_legible


def _write_like(notebook: Json, model: str) -> str:
    """The notebook as JSON in the style of the text that it was parsed from, so that a diff shows only the cell."""
    style = re.match(r'\s*\{(\r?\n)([ \t]+)"', model)
    escaped = model.isascii() and "\\u" in model
    end = model[len(model.rstrip()) :]
    if style is None:
        separators = (", ", ": ") if '": ' in model else (",", ":")
        return json.dumps(notebook, ensure_ascii=escaped, separators=separators) + end
    return json.dumps(notebook, ensure_ascii=escaped, indent=style[2]).replace("\n", style[1]) + end


def plan_edit(present: Present, input: Json) -> PlannedChange | Output:
    notebook = parse_notebook(present.text)
    if notebook is None or present.decoded is None:
        return failure(f"{present.shown} is not a notebook: it is no JSON object with a list of cells.")
    cells: list[Json] = notebook["cells"]
    known = [cell_id(cell, index) for index, cell in enumerate(cells)]
    index = _index_of(input.get("cell_id"), known)
    if index is None:
        listed = ", ".join(map(make_legible, known[:30])) + (" …" if len(known) > 30 else "")
        return failure(f"{present.shown} has no cell {input['cell_id'][:100]!r}. Its cells are: {listed or 'none'}.")
    old: Json = cells[index] if index >= 0 else {}
    match input.get("edit_mode") or "replace":
        case "delete":
            name = known[index]
            del cells[index]
            did, before, after = f"Deleted cell {name}", source_of(old.get("source")), ""
        case "insert":
            cell = _make_cell(notebook, input)
            cells.insert(index + 1, cell)
            name = cell_id(cell, index + 1)
            did, before, after = f"Inserted cell {name} as number {index + 2}", "", input["new_source"]
        case _:
            cells[index], name = _change_cell(old, input), known[index]
            before, after = source_of(old.get("source")), input["new_source"]
            did = f"Replaced the source of cell {name}" + (" and cleared its outputs" if old.get("outputs") else "")
    text = _write_like(notebook, present.text)
    data = present.decoded.encode(text)
    if data is None:
        return failure(f"{present.shown} is {present.decoded.unusual}, which lacks some characters of new_source.")
    display = {
        **diff_display(present.shown, before, after),
        "cell": make_legible(name),
        "language": _language(notebook),
    }
    return PlannedChange(data, text, f"{make_legible(did)} in {present.shown}.", display)


def _index_of(given: str | None, known: list[str]) -> int | None:
    """Index of a cell; -1 if none is given, None if it does not exist. A position (`cell-3`) works if no cell has that
    id."""
    if not given:
        return -1
    if given in known:
        return known.index(given)
    place = re.fullmatch(r"cell-(\d{1,6})", given)
    return int(place[1]) if place and int(place[1]) < len(known) else None


def _source(text: str, model: object) -> str | list[str]:
    """The source in the form that the file uses, usually a list of lines."""
    return text if isinstance(model, str) else re.findall(r"[^\n]*\n|[^\n]+", text)


def _change_cell(old: Json, input: Json) -> Json:
    kind = input.get("cell_type") or old.get("cell_type") or "code"
    cell = {**old, "cell_type": kind, "source": _source(input["new_source"], old.get("source"))}
    if kind == "code":
        # The outputs belong to the old source.
        return {**cell, "execution_count": None, "outputs": []}
    return {name: value for name, value in cell.items() if name not in ("execution_count", "outputs")}


def _make_cell(notebook: Json, input: Json) -> Json:
    kind = input["cell_type"]
    cell: Json = {"cell_type": kind}
    if kind == "code":
        cell["execution_count"] = None
    version = (notebook.get("nbformat"), notebook.get("nbformat_minor"))
    if all(isinstance(number, int) for number in version) and version >= (4, 5):
        cell["id"] = os.urandom(4).hex()
    cell["metadata"] = {}
    if kind == "code":
        cell["outputs"] = []
    cell["source"] = _source(input["new_source"], [])
    return cell


def _language(notebook: Json) -> str:
    metadata = notebook.get("metadata")
    information = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = information.get("name") if isinstance(information, dict) else None
    return name if isinstance(name, str) else "python"


class NotebookEdit(ChangingTool):
    name = "NotebookEdit"
    subject = "notebook_path"
    input_schema = object_schema(
        ["notebook_path", "new_source"],
        {
            "notebook_path": {
                "type": "string",
                "description": "The notebook, absolute or relative to the project's root",
            },
            "cell_id": {
                "type": "string",
                "description": "The cell; for insert, the one after which (none: at the top)",
            },
            "new_source": {"type": "string", "description": "The cell's new source; not used for delete"},
            "cell_type": {"type": "string", "enum": ["code", "markdown", "raw"], "description": "Needed for insert"},
            "edit_mode": {"type": "string", "enum": ["replace", "insert", "delete"], "description": "Default: replace"},
        },
    )

    def title(self, input: Json) -> str:
        mode = str(input.get("edit_mode") or "replace")
        return plain_line(f"{self.name} {input.get('notebook_path', '')} ({mode} {input.get('cell_id') or 'cell'})")

    def check(self, input: Json, context: ToolContext) -> str | None:
        mode = input.get("edit_mode") or "replace"
        if mode != "insert" and not input.get("cell_id"):
            return f"cell_id is needed to {mode} a cell. Read the notebook to see the ids."
        if mode == "insert" and not input.get("cell_type"):
            return "cell_type is needed to insert a cell: code, markdown or raw."
        if not str(input["notebook_path"]).endswith(".ipynb"):
            return "notebook_path must name an .ipynb file; use Edit for other files."
        return super().check(input, context)

    def intent(self, input: Json) -> Intent:
        return Intent(input["notebook_path"], lambda present: plan_edit(present, input))
