"""Files that are saved while the program runs: the app, plain mode and headless runs follow them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.e2e.test_plain import PLAIN, leave, prompted
from tests.support.scripts import call, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
FLAGS = ("--sandbox", "off", "--permission-mode", "bypassPermissions")


def hook(command: str) -> dict[str, Any]:
    return {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}}


def save(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def user_settings(folder: Path) -> Path:
    return folder / "home/.config/agentcli/settings.json"


async def test_the_idle_app_takes_in_hooks_settings_and_a_project_file_that_is_not_trusted(tmp_path: Path) -> None:
    log, turn = tmp_path / "hook.log", (reply(call("Bash", command="true")), "Done.")
    async with app_with(tmp_path, *turn, *turn, arguments=FLAGS) as (app, _server):
        await app.ready()
        save(
            user_settings(tmp_path),
            {**hook(f"echo ran >> {log}"), "statusLine": {"type": "command", "command": "echo mine"}},
        )
        await app.wait_for("Hooks reloaded: +1 PreToolUse.")
        await app.wait_for("Settings reloaded: statusLine.")
        await app.wait_for("mine")
        await app.submit("go")
        await app.wait_for("Done.")
        assert log.read_text() == "ran\n"
        user_settings(tmp_path).unlink()
        await app.wait_for("Hooks reloaded: −1 PreToolUse.")
        await app.submit("again")
        await app.wait_for(lambda: app.text.count("Done.") == 2)
        assert log.read_text() == "ran\n", "a removed hook does not run"
        save(app.work / ".agentcli/settings.json", hook("echo project"))
        await app.wait_for("Not trusted: .agentcli/settings.json.")
        await app.submit("/hooks")
        await app.wait_for("not active: this folder is not")
        await app.press("escape")
        assert await app.leave() == 0


async def test_a_server_added_in_another_terminal_reaches_the_running_session(tmp_path: Path, program: Program) -> None:
    replies = (
        "Hello.",
        reply(call("ToolSearch", query="select:mcp__small__echo")),
        reply(call("mcp__small__echo", text="from the new server")),
        "Echoed.",
    )
    async with app_with(tmp_path, *replies, arguments=[*PLAIN, "--allowedTools", "mcp__small"]) as (app, server):
        await prompted(app)
        await app.submit("hi")
        await app.wait_for("Hello.")
        await prompted(app)
        program.work, program.environ["HOME"] = app.work, str(tmp_path / "home")
        added = await program.run("mcp", "add", "small", "--scope", "user", "--", sys.executable, "-S", str(SCRIPT))
        assert added.code == 0, added.err
        await app.wait_for("MCP servers reloaded: new: small. /mcp shows their state.")
        await prompted(app)
        await app.submit("/mcp reconnect small")
        await app.wait_for("small is connected, 10 tools")
        await prompted(app)
        await app.submit("use it")
        await app.wait_for("Echoed.")
        assert "from the new server" in json.dumps(server.bodies[-1]["messages"][-1])
        await prompted(app)
        assert (await program.run("mcp", "remove", "small")).code == 0
        await app.wait_for("MCP servers reloaded: removed: small.")
        assert await leave(app) == 0
