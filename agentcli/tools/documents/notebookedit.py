"""NotebookEdit: replace, insert or delete one cell of a Jupyter notebook, and keep every other byte.

Writing the parsed notebook again would change order, indentation and escapes, and make the diff unreadable. So the
position of the cell in the text is found, and only that part is replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import failure, object_schema
from agentcli.tools.documents.notebook import cell_id, parse_notebook, source_of
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.diff import diff_display
from agentcli.tools.files.numbered_lines import legible

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@frozen
class Cells:
    """Positions of the cells in the text: the brackets of their list, and each cell from brace to brace."""

    text: str
    start: int
    """Index just after the opening bracket."""
    stop: int
    """Index of the closing bracket."""
    spans: tuple[tuple[int, int], ...]

    def replaced(self, index: int, cell: Json) -> str:
        start, stop = self.spans[index]
        return self.text[:start] + self._written(cell, self.text[start:stop]) + self.text[stop:]

    def without(self, index: int) -> str:
        start, stop = self.spans[index]
        if index + 1 < len(self.spans):
            return self.text[:start] + self.text[self.spans[index + 1][0] :]
        if index:
            return self.text[: self.spans[index - 1][1]] + self.text[stop:]
        return self.text[: self.start] + self.text[self.stop :]

    def with_inserted(self, index: int, cell: Json) -> str:
        model = self.text[slice(*self.spans[0])] if self.spans else self.text
        written = self._written(cell, model)
        if not self.spans:
            indent, newline = self._style()
            around = (f"{newline}{indent * 2}", f"{newline}{indent}") if indent else ("", "")
            return self.text[: self.start] + around[0] + written + around[1] + self.text[self.stop :]
        if index < len(self.spans):
            at = self.spans[index][0]
            return self.text[:at] + written + self._between() + self.text[at:]
        at = self.spans[-1][1]
        return self.text[:at] + self._between() + written + self.text[at:]

    def _between(self) -> str:
        """The comma and white space between two cells."""
        if len(self.spans) > 1:
            return self.text[self.spans[0][1] : self.spans[1][0]]
        return "," + self.text[self.start : self.spans[0][0]]

    def _style(self) -> tuple[str, str]:
        """One indentation step (empty: everything on one line) and the line ending."""
        found = re.match(r'\s*\{(\r?\n)([ \t]+)"', self.text)
        return (found[2], found[1]) if found else ("", "\n")

    def _written(self, cell: Json, model: str) -> str:
        indent, newline = self._style()
        escaped = self.text.isascii() and "\\u" in self.text
        if not indent:
            separators = (", ", ": ") if '": ' in model else (",", ":")
            return json.dumps(cell, ensure_ascii=escaped, separators=separators)
        lines = json.dumps(cell, ensure_ascii=escaped, indent=indent).split("\n")
        return f"{newline}{indent * 2}".join(lines)


def find_cells(text: str) -> Cells | None:
    """Locate the cells; None if the text is not a JSON object with a list of cells. Never raises."""
    try:
        for name, start in _members(text, _blanks(text, 0)):
            if name == "cells" and text[start] == "[":
                spans = tuple(_items(text, start))
                stop = _blanks(text, spans[-1][1] if spans else start + 1)
                return Cells(text, start + 1, stop, spans)
    except (ValueError, IndexError, RecursionError):
        pass
    return None


def _blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Names of the members of the object at `at`, each with the index of its value."""
    if text[at] != "{":
        return
    at = _blanks(text, at + 1)
    while text[at] != "}":
        name, at = _value(text, at)
        at = _blanks(text, at)
        if text[at] != ":":
            raise ValueError(at)
        start = _blanks(text, at + 1)
        yield str(name), start
        at = _next(text, _value(text, start)[1])


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _blanks(text, at + 1)
    while text[at] != "]":
        stop = _value(text, at)[1]
        yield at, stop
        at = _next(text, stop)


def _next(text: str, at: int) -> int:
    at = _blanks(text, at)
    return _blanks(text, at + 1) if text[at] == "," else at


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
        return _intent(input)


def _intent(input: Json) -> Intent:
    def plan(present: Present) -> PlannedChange | Output:
        # Imported here: few sessions edit notebooks.
        from agentcli.tools.documents.notebookedit import planned

        return planned(present, input)

    return Intent(input["notebook_path"], plan)
