"""NotebookEdit: one cell changes; the style of the file stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentcli.tools.base import Output, ToolContext
from agentcli.tools.documents.notebookedit import NotebookEdit
from agentcli.tools.documents.read import Read
from tests.tools.running import run, text_of

pytestmark = pytest.mark.anyio

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Grüße\n", "text"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "id": "work",
        "metadata": {"tags": ["a", "b"]},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}],
        "source": ["print(1)"],
    },
]
CONTENT = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
NOTEBOOK = json.dumps(CONTENT, indent=1, ensure_ascii=False) + "\n"
"""As Jupyter writes it."""


async def change(context: ToolContext, content: str | None = None, **input: Any) -> Output:
    path = context.cwd / "a.ipynb"
    if content is not None:
        path.write_bytes(content.encode())
    await run(Read(), context, file_path="a.ipynb")
    return await run(NotebookEdit(), context, notebook_path="a.ipynb", **{"new_source": "", **input})


def written(context: ToolContext) -> str:
    text = (context.cwd / "a.ipynb").read_bytes().decode()
    json.loads(text)
    return text


async def test_replacing_a_source_changes_that_cell_alone(context: ToolContext) -> None:
    output = await change(context, NOTEBOOK, cell_id="intro", new_source="# Neu\nText – mehr\n")
    assert not output.is_error, text_of(output)
    assert written(context) == NOTEBOOK.replace('"# Grüße\\n",\n    "text"', '"# Neu\\n",\n    "Text – mehr\\n"')
    assert (
        output.display["diff"] == "@@ -1,2 +1,2 @@\n-# Grüße\n-text\n\\ No newline at end of file\n+# Neu\n+Text – mehr"
    )
    assert output.display["cell"] == "intro"


async def test_a_new_code_source_clears_the_old_output(context: ToolContext) -> None:
    output = await change(context, NOTEBOOK, cell_id="work", new_source="print(2)")
    assert "cleared its outputs" in text_of(output)
    cell = json.loads(written(context))["cells"][1]
    assert cell["outputs"] == []
    assert cell["execution_count"] is None
    assert cell["source"] == ["print(2)"]
    assert list(cell) == ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]
    assert written(context).startswith(NOTEBOOK[: NOTEBOOK.index('   "cell_type": "code"')])


async def test_a_cell_is_inserted_after_another_or_at_the_top(context: ToolContext) -> None:
    await change(context, NOTEBOOK, edit_mode="insert", cell_id="intro", cell_type="code", new_source="x = 1\ny = 2")
    first = written(context)
    cells = json.loads(first)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
    assert cells[1]["source"] == ["x = 1\n", "y = 2"]
    assert cells[1]["id"]
    await change(context, edit_mode="insert", cell_type="markdown", new_source="top")
    assert json.loads(written(context))["cells"][0]["source"] == ["top"]
    await change(context, edit_mode="insert", cell_id="work", cell_type="raw", new_source="end")
    assert json.loads(written(context))["cells"][-1]["source"] == ["end"]


async def test_inserting_and_deleting_a_cell_leaves_the_file_unchanged(context: ToolContext) -> None:
    for after in (None, "intro", "work"):
        place = {"cell_id": after} if after else {}
        output = await change(context, NOTEBOOK, edit_mode="insert", cell_type="markdown", new_source="x", **place)
        name = output.display["cell"]
        assert written(context) != NOTEBOOK
        await change(context, edit_mode="delete", cell_id=name)
        assert written(context) == NOTEBOOK, after


@pytest.mark.parametrize(
    "dump",
    [{"separators": (",", ":")}, {}, {"indent": 4}, {"indent": "\t"}, {"indent": 1, "ensure_ascii": False}],
)
async def test_the_style_of_a_file_is_kept(dump: dict[str, Any], context: ToolContext) -> None:
    before = json.dumps(json.loads(NOTEBOOK), **dump)
    await change(context, before, cell_id="intro", new_source="# Grüße\ntext!")
    changed = json.loads(NOTEBOOK)
    changed["cells"][0]["source"] = ["# Grüße\n", "text!"]
    assert written(context) == json.dumps(changed, **dump)


async def test_line_endings_of_a_notebook_are_kept(context: ToolContext) -> None:
    await change(context, NOTEBOOK.replace("\n", "\r\n"), cell_id="intro", new_source="# Neu")
    assert written(context).count("\n") == written(context).count("\r\n")


async def test_a_type_may_change_with_the_source(context: ToolContext) -> None:
    await change(context, NOTEBOOK, cell_id="work", cell_type="markdown", new_source="now text")
    cell = json.loads(written(context))["cells"][1]
    assert cell["cell_type"] == "markdown"
    assert "outputs" not in cell
    assert "execution_count" not in cell
    await change(context, cell_id="work", cell_type="code", new_source="x")
    assert json.loads(written(context))["cells"][1]["outputs"] == []


async def test_cells_without_ids_are_addressed_by_position(context: ToolContext) -> None:
    old = json.loads(NOTEBOOK)
    for cell in old["cells"]:
        del cell["id"]
    old["nbformat_minor"] = 4
    content = json.dumps(old, indent=1)
    assert 'id="cell-1"' in text_of(await _read(context, content))
    assert not (await change(context, content, cell_id="cell-1", new_source="print(9)")).is_error
    await change(context, edit_mode="insert", cell_id="cell-0", cell_type="code", new_source="x")
    assert "id" not in json.loads(written(context))["cells"][1]


async def _read(context: ToolContext, content: str) -> Output:
    (context.cwd / "a.ipynb").write_text(content)
    return await run(Read(), context, file_path="a.ipynb")


async def test_impossible_edits_are_explained(context: ToolContext) -> None:
    unknown = await change(context, NOTEBOOK, cell_id="nope", new_source="x")
    assert "has no cell 'nope'. Its cells are: intro, work." in text_of(unknown)
    assert "is not a notebook" in text_of(await change(context, '{"cells": 1}', cell_id="a", new_source="x"))
    tool = NotebookEdit()
    assert "cell_id is needed" in str(tool.check({"notebook_path": "a.ipynb", "new_source": "x"}, context))
    insert = {"notebook_path": "a.ipynb", "new_source": "x", "edit_mode": "insert"}
    assert "cell_type is needed" in str(tool.check(insert, context))
    assert "use Edit" in str(tool.check({"notebook_path": "a.py", "new_source": "x", "cell_id": "a"}, context))


async def test_a_notebook_changed_since_it_was_read_is_not_overwritten(context: ToolContext) -> None:
    await _read(context, NOTEBOOK)
    (context.cwd / "a.ipynb").write_text(NOTEBOOK.replace("print(1)", "print(7)"))
    output = await run(NotebookEdit(), context, notebook_path="a.ipynb", cell_id="intro", new_source="x")
    assert "has changed since it was read" in text_of(output)
    assert "print(7)" in written(context)
