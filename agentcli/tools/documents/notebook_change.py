"""Apply a NotebookEdit call to the text of a notebook. Pure, except for the random id of a new cell."""

from __future__ import annotations

import os
import re

from agentcli.core.messages import Json
from agentcli.tools.base import Output
from agentcli.tools.builtin import failure
from agentcli.tools.documents.notebook import cell_id, parse_notebook, source_of
from agentcli.tools.documents.notebook_cells import find_cells
from agentcli.tools.files.change import PlannedChange, Present
from agentcli.tools.files.diff import diff_display
from agentcli.tools.files.numbered_lines import legible


def planned(present: Present, input: Json) -> PlannedChange | Output:
    notebook, cells = parse_notebook(present.text), find_cells(present.text)
    if notebook is None or cells is None or present.decoded is None:
        return failure(f"{present.shown} is not a notebook: it is no JSON object with a list of cells.")
    known = [cell_id(cell, index) for index, cell in enumerate(notebook["cells"])]
    if len(known) != len(cells.spans):
        return failure(f"{present.shown} has two lists of cells, which no notebook should. Repair it with a command.")
    index = _index_of(input.get("cell_id"), known)
    if index is None:
        listed = ", ".join(map(legible, known[:30])) + (" …" if len(known) > 30 else "")
        return failure(f"{present.shown} has no cell {input['cell_id'][:100]!r}. Its cells are: {listed or 'none'}.")
    old: Json = notebook["cells"][index] if index >= 0 else {}
    match input.get("edit_mode") or "replace":
        case "delete":
            text, name = cells.without(index), known[index]
            did, before, after = f"Deleted cell {name}", source_of(old.get("source")), ""
        case "insert":
            cell = _new_cell(notebook, input)
            text, name = cells.with_inserted(index + 1, cell), cell_id(cell, index + 1)
            did, before, after = f"Inserted cell {name} as number {index + 2}", "", input["new_source"]
        case _:
            text, name = cells.replaced(index, _changed_cell(old, input)), known[index]
            before, after = source_of(old.get("source")), input["new_source"]
            did = f"Replaced the source of cell {name}" + (" and cleared its outputs" if old.get("outputs") else "")
    data = present.decoded.encode(text)
    if data is None:
        return failure(f"{present.shown} is {present.decoded.unusual}, which lacks some characters of new_source.")
    display = {**diff_display(present.shown, before, after), "cell": legible(name), "language": _language(notebook)}
    return PlannedChange(data, text, f"{legible(did)} in {present.shown}.", display)


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


def _changed_cell(old: Json, input: Json) -> Json:
    kind = input.get("cell_type") or old.get("cell_type") or "code"
    cell = {**old, "cell_type": kind, "source": _source(input["new_source"], old.get("source"))}
    if kind == "code":
        # The outputs belong to the old source.
        return {**cell, "execution_count": None, "outputs": []}
    return {name: value for name, value in cell.items() if name not in ("execution_count", "outputs")}


def _new_cell(notebook: Json, input: Json) -> Json:
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
