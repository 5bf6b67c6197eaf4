"""Tools of MCP servers in a session of the assembled program: late servers, questions, interruption, the end."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.test_plain import PLAIN, asked, leave, prompted
from tests.support.scripts import call, reply
from tests.support.terminal import app_with, processes_in

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
SERVER = shlex.join([sys.executable, "-S", str(SCRIPT)])


def configured(line: str) -> tuple[str, str]:
    """The flag for one server, `small`, that the shell starts with this line."""
    return "--mcp-config", json.dumps({"mcpServers": {"small": {"command": "/bin/sh", "args": ["-c", line]}}})


async def test_a_prompt_does_not_wait_for_a_server_whose_tools_a_later_one_finds_and_calls(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    replies = (
        "At once.",
        reply(call("ToolSearch", query="say a text again")),
        reply(call("mcp__small__echo", text="hello there")),
        "It echoed.",
    )
    arguments = configured(f"read line < '{gate}'; exec {SERVER}")
    async with app_with(tmp_path, *replies, arguments=arguments) as (app, server):
        await app.ready()
        await app.submit("first")
        await app.wait_for("At once.")
        await asyncio.to_thread(gate.write_text, "go\n")
        await app.submit("/mcp")
        await app.wait_for("✓ small  connected")
        await app.press("escape")
        await app.wait_for("Ask anything")
        await app.submit("second")
        await app.wait_for("hello there")
        await app.wait_for("Allow once")
        await app.answer("y")
        await app.wait_for("It echoed.")
        first, second, _loaded, last = server.bodies
        assert "Deferred tools of MCP servers" not in json.dumps(first)
        assert "Deferred tools of MCP servers" in json.dumps(second["messages"][-1])
        assert "hello there" in json.dumps(last["messages"][-1])
        assert (second["system"], second["tools"]) == (first["system"], first["tools"])
        assert await app.leave() == 0


async def test_a_tool_asks_the_user_and_the_answers_reach_its_server(tmp_path: Path) -> None:
    arguments = [*PLAIN, *configured(f"exec {SERVER}"), "--allowed-tools", "mcp__small"]
    async with app_with(tmp_path, reply(call("mcp__small__ask")), "Noted.", arguments=arguments) as (app, server):
        await prompted(app)
        await app.submit("/mcp reconnect small")
        await app.wait_for("small is connected, 10 tools")
        await prompted(app)
        await app.submit("go")
        await app.wait_for("| Who are you?")
        await asked(app)
        await app.submit("f")
        await asked(app, "value:")
        await app.submit("Ada")
        await app.wait_for("age  2 of 2")
        await asked(app, "value:")
        await app.submit("36")
        await app.wait_for("name: Ada")
        await asked(app)
        await app.submit("y")
        await app.wait_for("Noted.")
        [result] = server.bodies[-1]["messages"][-1]["content"]
        assert json.loads(result["content"][0]["text"]) == {"action": "accept", "content": {"name": "Ada", "age": 36}}
        assert await leave(app) == 0


async def test_esc_ends_a_hanging_call_notifies_its_server_and_sigterm_ends_even_a_stubborn_one(tmp_path: Path) -> None:
    errors = tmp_path / "errors.txt"
    stubborn = f"trap '' TERM; {SERVER} 2> '{errors}'; sleep 100"
    arguments = [*configured(stubborn), "--allowed-tools", "mcp__small"]
    async with app_with(tmp_path, reply(call("mcp__small__slow", steps=1)), "never", arguments=arguments) as (
        app,
        server,
    ):
        await app.ready()
        await app.submit("/mcp reconnect small")
        await app.wait_for("small is connected, 10 tools")
        await app.submit("go")
        await app.wait_for("step 1 (1 of 10)")
        await app.press("escape")
        await app.wait_for("Interrupted.")
        await app.wait_for(lambda: "cancelled" in errors.read_text())
        assert len(server.bodies) == 1
        assert len(processes_in(app.work)) > 1
        app.signal(signal.SIGTERM)
        assert await app.end() == 143
        assert processes_in(app.work) == []


async def test_esc_ends_calls_of_a_server_that_crashed_on_bad_arguments_and_the_session_goes_on(tmp_path: Path) -> None:
    calls = reply(call("mcp__small__slow", steps=1), call("mcp__small__add", a=1))
    # Started again after its crash, the server sends its tools once more, which a thread reads.
    arguments = [*configured(f"exec {SERVER}"), "--allowed-tools", "mcp__small"]
    async with app_with(tmp_path, calls, "Still here.", arguments=arguments) as (app, _server):
        await app.ready()
        await app.submit("/mcp reconnect small")
        await app.wait_for("small is connected, 10 tools")
        await app.submit("go")
        await app.wait_for("step 1 (1 of 10)")
        await app.press("escape")
        await app.wait_for("Interrupted.")
        await app.submit("next")
        await app.wait_for("Still here.")
        assert await app.leave() == 0
        assert processes_in(app.work) == []
