"""Tools of MCP servers in a session of the assembled program: late servers, questions, interruption, the end."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.support.scripts import call, reply
from tests.support.terminal import app_with, processes_in

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
SERVER = shlex.join([sys.executable, "-S", str(SCRIPT)])


def configured(line: str) -> tuple[str, str]:
    """The flag for one server, `small`, that the shell starts with this line."""
    return "--mcp-config", json.dumps({"mcpServers": {"small": {"command": "/bin/sh", "args": ["-c", line]}}})


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
