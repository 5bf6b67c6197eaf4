"""What a call of an MCP server's tool costs beyond the server's own time: over bare pipes, and through a session's
server, in turns, with the small server of the tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.servers import McpServers
from tests.bench.measure import Measure, Report

BUDGET_MS = 3.0
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


def mcp_calls(runs: int) -> Report:
    bare, called = asyncio.run(call_times(runs))
    added = tuple(slow - fast for fast, slow in zip(bare, called, strict=True))
    return Report(
        "mcp: a call of a tool over stdio",
        (
            Measure("over bare pipes", bare),
            Measure("through agentcli", called, baseline="over bare pipes"),
            Measure("what agentcli adds", added, budget=BUDGET_MS),
        ),
    )


async def call_times(runs: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Milliseconds of each call: of the server alone, and through its `McpServer`."""
    command = (sys.executable, "-S", str(SCRIPT))
    folder = Path.cwd()
    config = ServerConfig("small", "stdio", command=command[0], args=command[1:])
    servers = McpServers([config], ServerSurroundings(folder, dict(os.environ), (folder,)), ServerRequests())
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    bare: list[float] = []
    called: list[float] = []
    servers.start()
    try:
        await servers.wait_for_start(30)
        server = servers.get("small")
        assert server is not None
        for number in range(runs + 3):
            params = {"name": "echo", "arguments": {"text": "hello"}}
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            began = time.perf_counter()
            process.stdin.write(json.dumps(request).encode() + b"\n")
            json.loads(await process.stdout.readline())
            between = time.perf_counter()
            await server.call("echo", {"text": "hello"})
            ended = time.perf_counter()
            if number >= 3:
                bare.append((between - began) * 1000)
                called.append((ended - between) * 1000)
    finally:
        await servers.aclose()
        process.kill()
        await process.wait()
    return tuple(bare), tuple(called)
