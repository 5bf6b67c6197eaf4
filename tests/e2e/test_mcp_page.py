"""MCP servers in the app and without one: the page, a prompt as a command, a resource in a prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.scripts import reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
CONFIG = json.dumps(
    {"mcpServers": {"small": {"command": sys.executable, "args": ["-S", str(SCRIPT)]}, "gone": {"command": "not-here"}}}
)


async def test_the_page_shows_servers_as_they_connect_and_a_prompt_of_one_is_sent(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply(say("Hello Ada.")), arguments=("--mcp-config", CONFIG)) as (app, server):
        await app.ready()
        await app.wait_for("MCP server gone failed: ")
        await app.submit("/mcp")
        await app.wait_for("✓ small  connected  10 tools")
        await app.wait_for("✗ gone   failed")
        await app.press("enter")
        await app.wait_for("MCP server small")
        await app.wait_for("● echo")
        await app.press("escape")
        await app.wait_for("✗ gone   failed")
        await app.press("escape")
        await app.wait_for("Ask anything")
        await app.submit("/mcp small")
        await app.wait_for("MCP server small")
        await app.press("escape")
        await app.wait_for("Ask anything")
        await app.submit("/mcp__small__greet Ada")
        await app.wait_for("Hello Ada.")
        assert "Greet Ada." in json.dumps(server.bodies[-1])
        assert await app.leave() == 0


async def test_without_an_app_servers_are_listed_and_resources_attached(program: Program) -> None:
    async with LoopbackServer(reply(say("Seen."))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "/mcp", "--mcp-config", CONFIG)
        assert "✓ small  connected  10 tools · 3 resources · 2 prompts" in ended.out
        assert "✗ gone   failed" in ended.out
        ended = await program.run("-p", "What is in @small:note://one?", "--mcp-config", CONFIG)
        assert (ended.code, ended.out) == (0, "Seen.\n")
        assert ended.err.count("MCP server gone failed") == 1
        assert "This is the note note://one." in json.dumps(server.bodies[-1])
