"""Our code in the cancel scopes of the library: cancelled once, awaited, without keeping the event loop busy."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import anyio
import pytest

from agentcli.core.aio import in_thread
from agentcli.mcp import answers
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.link import run_outside_scopes
from agentcli.mcp.protocol import ServerRequests
from agentcli.mcp.server import McpServer
from tests.support.virtual import VirtualLoop

pytestmark = pytest.mark.virtual

SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


async def test_work_in_a_cancelled_scope_cleans_up_undisturbed_and_without_spinning() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)
            await asyncio.sleep(5)
            ended.append("cleaned up")

    with anyio.CancelScope() as scope:
        loop.call_later(1, scope.cancel)
        await run_outside_scopes(work())
    assert ended == ["cleaned up"]
    assert scope.cancelled_caught
    assert loop.steps < 30


@pytest.mark.anyio
async def test_a_server_can_be_stopped_while_a_thread_reads_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, released = threading.Event(), threading.Event()
    read_page = answers._read_page

    def held(*arguments: object) -> object:
        began.set()
        released.wait(60)
        return read_page(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "_read_page", held)
    config = ServerConfig("small", "stdio", command=sys.executable, args=("-S", str(SCRIPT)))
    server = McpServer(config, ServerSurroundings(tmp_path), ServerRequests())
    server.start()
    await in_thread(began.wait, 60)
    stopping = asyncio.create_task(server.stop())
    await asyncio.wait({stopping}, timeout=0.1)
    released.set()
    async with asyncio.timeout(30):
        await stopping
    assert server.state == "waiting"
