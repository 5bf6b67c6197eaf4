"""MCP servers in the assembled program: configuration, approval, and waiting in headless runs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


def small(*further: str) -> dict[str, object]:
    return {"command": sys.executable, "args": ["-S", str(SCRIPT), *further]}


async def test_a_headless_run_waits_for_its_servers_and_names_failed_ones(program: Program) -> None:
    config = json.dumps({"mcpServers": {"small": small(), "gone": {"command": "no-such-program-here"}}})
    async with LoopbackServer(reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hello", "--mcp-config", config, "--output-format", "stream-json", "--verbose")
    [init] = [frame for frame in ended.frames if frame.get("subtype") == "init"]
    assert init["mcp_servers"] == [{"name": "small", "status": "connected"}, {"name": "gone", "status": "failed"}]
    assert {"mcp__small__greet", "mcp__small__plain"} <= set(init["slash_commands"])
    assert "MCP server gone failed: " in ended.err
    assert ended.code == 0


async def test_a_repositorys_server_does_not_start_before_trust(program: Program) -> None:
    mark = program.work / "started"
    touch = {
        "command": "/bin/sh",
        "args": ["-c", f"touch '{mark}'; exec {shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPT))}"],
    }
    (program.work / ".git").mkdir()
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"touch": touch}}))
    async with LoopbackServer(reply(say("one")), reply(say("two"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hello")
        assert (ended.code, ended.out) == (0, "one\n")
        assert "MCP servers of this project wait for approval: touch." in ended.err
        assert not mark.exists()
        ended = await program.run("-p", "hello", "--trust")
        assert (ended.code, ended.out) == (0, "two\n")
        assert "approval" not in ended.err
    assert mark.exists()


async def test_a_server_is_added_listed_tested_and_removed(program: Program) -> None:
    added = await program.run("mcp", "add", "small", "--", sys.executable, "-S", str(SCRIPT))
    assert (added.code, added.out.splitlines()[1]) == (0, "Try it: agentcli mcp test small")
    await program.run("mcp", "add", "gone", "--scope", "user", "--", "no-such-program-here")
    listed = await program.run("mcp", "list", "--json")
    states = [(record["name"], record["state"], record["tools"]) for record in json.loads(listed.out)]
    assert states == [("small", "connected", 10), ("gone", "failed", 0)]
    tested = await program.run("mcp", "test", "small")
    assert tested.code == 0
    assert "Server: small 1.0, protocol 2025" in tested.out
    assert "Tools (10)\n  echo  Say a text again\n  add  [read-only]" in tested.out
    assert "@small:note://one" in tested.out
    assert "/mcp__small__greet <name> [mood]  Greet somebody" in tested.out
    removed = await program.run("mcp", "remove", "small")
    assert removed.out.startswith("Removed small from ")
    assert "small" not in (await program.run("mcp", "list", "--no-connect")).out


async def test_a_changed_script_of_a_trusted_server_does_not_start(program: Program) -> None:
    script, evil = program.work / "tools" / "server.sh", program.home / "evil"
    script.parent.mkdir()
    script.write_text(f"exec {shlex.quote(sys.executable)} -S {shlex.quote(str(SCRIPT))}\n")
    (program.work / ".git").mkdir()
    entry = {"command": "/bin/sh", "args": ["tools/server.sh"]}
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}))
    read = reply(call("Read", file_path="tools/server.sh"))
    edit = reply(call("Edit", file_path="tools/server.sh", old_string="exec", new_string=f"touch {evil}; exec"))
    run = reply(call("Bash", command=f"echo touch {evil} >> tools/server.sh"))
    async with LoopbackServer(read, edit, "Done.", run, "Done.", "Done.") as server:
        program.talk_to(server.url)
        assert str(SCRIPT) in (await program.run("trust", "--yes")).out
        ended = await program.run("-p", "go", "--permission-mode", "acceptEdits")
        assert "wait for approval" not in ended.err
        assert "touch" not in script.read_text(), "an edit asks"
        await program.run("-p", "go", "--permission-mode", "bypassPermissions", "--sandbox", "off")
        ended = await program.run("-p", "go")
        assert "MCP servers of this project wait for approval: own." in ended.err
    assert "touch" in script.read_text()
    assert not evil.exists()
