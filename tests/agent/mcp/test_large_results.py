"""Large results of MCP tools: the same output as of small ones, while the event loop goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.mcp import results
from agentcli.agent.mcp.results import ResultLimits, output_of
from agentcli.mcp.protocol import McpContent, McpResult
from agentcli.tools.base import Output

pytestmark = pytest.mark.anyio

LINES = "a line of it\n" * 15_000
ROWS = {"rows": [{"number": number, "name": "größe"} for number in range(6_000)]}


def text(value: str) -> McpContent:
    return McpContent("text", text=value)


async def output(folder: Path, *content: McpContent, structured: Any = None) -> Output:
    return await output_of(McpResult(content, structured), ResultLimits(folder))


def saved(folder: Path) -> str:
    [file] = folder.iterdir()
    return file.read_text()


async def test_large_texts_are_saved_joined_and_without_control_characters(tmp_path: Path) -> None:
    made = await output(tmp_path, text(LINES + "\x1b[31mred\x07"), text(" \n"), text("the end"))
    assert saved(tmp_path) == f"{LINES}red\nthe end"
    assert made.summary == "15,002 lines, saved to a file"
    assert made.content[0].text.startswith("a line of it\n")  # type: ignore[union-attr]


async def test_large_structured_content_is_saved_unless_a_text_repeats_it(tmp_path: Path) -> None:
    await output(tmp_path / "only", structured=ROWS)
    assert json.loads(saved(tmp_path / "only")) == ROWS
    for name, content in {"same": json.dumps(ROWS), "indented": json.dumps(ROWS, indent=2)}.items():
        await output(tmp_path / name, text(content), structured={"result": ROWS})
        assert json.loads(saved(tmp_path / name)) == ROWS
    await output(tmp_path / "other", text(LINES), structured=ROWS)
    assert saved(tmp_path / "other") == LINES + "\n" + json.dumps(ROWS, ensure_ascii=False)


async def test_nothing_large_is_handled_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[bool] = []
    inner = results._output

    def watched(*arguments: Any) -> Output:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return inner(*arguments)

    monkeypatch.setattr(results, "_output", watched)
    await output(tmp_path, text(LINES), text(LINES), structured=ROWS)
    await output(tmp_path, structured=ROWS)
    await output(tmp_path, text("short"))
    assert on_loop == [False, False, True]
