"""Runs one tool call to its end, the way the executor does."""

from __future__ import annotations

import os
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agentcli.core.abort import AbortController, AbortSignal
from agentcli.tools.base import Output, Progress, Tool, ToolContext
from agentcli.tools.schema import checked


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
    fitted, wrong = checked(tool.input_schema, given)
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


def hits_of(output: Output) -> str:
    """The text of a search without the note that names the folder."""
    return re.sub(r"\n\n\[Searched [^\n]*\.\]", "", text_of(output))


def text_of(output: Output) -> str:
    if isinstance(output.content, str):
        return output.content
    return "\n".join(getattr(block, "text", "") for block in output.content)
