"""NotebookEdit: replace, insert or delete one cell of a Jupyter notebook; the rest of the file keeps its bytes."""

from __future__ import annotations

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import object_schema
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present


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
        from agentcli.tools.documents.notebook_change import planned

        return planned(present, input)

    return Intent(input["notebook_path"], plan)
