"""Large messages of MCP servers: `python -m tests.bench.mcp_large 1 10 40` for these megabytes.

For each kind and size the processor time of a megabyte and the longest gap of the event loop while it is read and, for
results of calls, made the output of the call.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.agent.mcp.results import ResultLimits, output_of
from agentcli.core.messages import Json
from agentcli.mcp.answers import AnswerReader
from agentcli.mcp.link import ServerLimits, ServerLink
from agentcli.mcp.protocol import McpResult
from tests.bench.loop_gaps import LoopGaps
from tests.bench.measure import Measure, Report
from tests.bench.tui_growth import settled_collection

SIZES = (1.0, 10.0)


def one_schema(megabytes: float) -> Json:
    inner = {"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": ["integer", "null"]}}
    property = {"type": "object", "description": "words about it " * 3, "properties": inner}
    properties = {f"property_{number}": property for number in range(int(megabytes * 4_600))}
    return {"tools": [{"name": "large", "inputSchema": {"type": "object", "properties": properties}}]}


def many_tools(megabytes: float) -> Json:
    properties = {f"p{number}": {"type": "string", "description": "words " * 10} for number in range(10)}
    schema = {"type": "object", "properties": properties}
    return {"tools": [{"name": f"tool{number}", "inputSchema": schema} for number in range(int(megabytes * 1_000))]}


def one_text(megabytes: float) -> Json:
    return {"content": [{"type": "text", "text": "a line of it\n" * int(megabytes * 1_000_000 / 14)}]}


def many_rows(megabytes: float) -> Json:
    rows = [{"a": number, "b": [number, 1], "c": "text"} for number in range(int(megabytes * 22_000))]
    return {"content": [{"type": "text", "text": "rows"}], "structuredContent": {"rows": rows}}


KINDS: Mapping[str, tuple[str, Callable[[float], Json]]] = {
    "one schema": ("tools/list", one_schema),
    "many tools": ("tools/list", many_tools),
    "one text": ("tools/call", one_text),
    "many rows": ("tools/call", many_rows),
}


def mcp_large(runs: int, sizes: Sequence[float] = SIZES) -> Report:
    measures: list[Measure] = []
    with settled_collection():
        for kind, (method, make) in KINDS.items():
            for size in sizes:
                data = json.dumps({"jsonrpc": "2.0", "id": 1, "result": make(size)}).encode()
                results = [asyncio.run(_read(data, method)) for _run in range(runs)]
                work, gaps = zip(*results, strict=True)
                label, first = f"{kind}, {size:g} MB: ", f"{kind}, {sizes[0]:g} MB: "
                baseline = f"{first}processor of a megabyte" if size != sizes[0] else None
                measures += [
                    Measure(f"{label}processor of a megabyte", work, "ms", baseline=baseline),
                    Measure(f"{label}longest gap of the loop", gaps, "ms", 50.0),
                ]
    return Report("mcp-large: large messages of MCP servers", tuple(measures))


async def _read(data: bytes, method: str) -> tuple[float, float]:
    reader = AnswerReader(ServerLink(), ServerLimits(inline_bytes=1024))
    reader.note_request(1, method)
    with tempfile.TemporaryDirectory(prefix="agentcli-bench-") as folder:
        async with LoopGaps() as gaps:
            await asyncio.sleep(0)  # the gaps are watched from here
            began = time.process_time()
            message = await reader.parse(data)
            taken = reader.claim(message["result"]["_meta"])
            assert taken is not None
            if isinstance(taken.value, McpResult):
                await output_of(taken.value, ResultLimits(Path(folder)))
            worked = time.process_time() - began
    return worked * 1000 / (len(data) / 1_000_000), gaps.longest


if __name__ == "__main__":
    print(mcp_large(1, [float(size) for size in sys.argv[1:]] or SIZES))
