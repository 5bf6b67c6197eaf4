"""Runs one tool call to its end, the way the executor does."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agentcli.core.aio import AbortController, AbortSignal
from agentcli.tools.base import Output, Progress, Tool, ToolContext, check_input


def context_in(folder: Path, **changes: Any) -> ToolContext:
    real = Path(os.path.realpath(folder))
    values: dict[str, Any] = {"cwd": real, "working_dirs": (real,), "environ": dict(os.environ)}
    return ToolContext(**{**values, **changes})


async def run(tool: Tool, context: ToolContext, signal: AbortSignal | None = None, **input: Any) -> Output:
    output, _progress = await run_fully(tool, context, signal, **input)
    return output


async def run_fully(
    tool: Tool, context: ToolContext, signal: AbortSignal | None = None, **input: Any
) -> tuple[Output, list[Progress]]:
    given = {name.replace("dash_", "-"): value for name, value in input.items()}
    fitted, wrong = check_input(tool.input_schema, given)
    assert not wrong, wrong
    assert tool.check(fitted, context) is None
    progress: list[Progress] = []
    outputs: list[Output] = []
    async with aclosing(tool.run(fitted, context, signal or AbortController().signal)) as events:
        async for event in events:
            if isinstance(event, Output):
                outputs.append(event)
            else:
                assert not outputs, "progress came after the output"
                progress.append(event)
    assert len(outputs) == 1
    return outputs[0], progress


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_alive(pid: int) -> bool:
    """Whether a process is running, and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def pid_in(path: Path) -> int:
    """The number that a command writes into a file."""
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def hits_of(output: Output) -> str:
    """The text of a search without the note that names the folder."""
    return re.sub(r"\n\n\[Searched [^\n]*\.\]", "", text_of(output))


def text_of(output: Output) -> str:
    if isinstance(output.content, str):
        return output.content
    return "\n".join(getattr(block, "text", "") for block in output.content)
