"""An untrusted repository: its rules and variables apply only after it was trusted, and only as they were then."""

from __future__ import annotations

import json
import os

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Program
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

SETTINGS = {
    "permissions": {"allow": ["Bash(touch *)"], "deny": ["Read(secret.txt)"]},
    "env": {"ANTHROPIC_API_KEY": "x"},
}


async def denied(program: Program, server: LoopbackServer) -> list[str]:
    ended = await program.run("-p", "go", "--output-format", "json", "--no-session-persistence")
    assert ended.code == 0, ended.err
    assert all(request.headers.get("authorization") == "Bearer sk-test" for request in server.requests)
    return [denial["tool_input"].get("command", "Read") for denial in json.loads(ended.out)["permission_denials"]]


async def test_only_restrictions_apply_until_the_folder_is_trusted(program: Program) -> None:
    settings = program.work / ".agentcli" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(SETTINGS))
    (program.work / "secret.txt").write_text("s")
    turn = [reply(call("Bash", command="touch made"), call("Read", file_path="secret.txt")), "Done."]
    async with LoopbackServer(*turn * 4) as server:
        program.talk_to(server.url)
        assert await denied(program, server) == ["touch made", "Read"]
        asked = await program.run("trust")
        assert asked.code == 2
        assert '"Bash(touch *)"' in asked.out, "it shows what would take effect"
        assert (await program.run("trust", "--yes")).code == 0
        assert await denied(program, server) == ["Read"]
        assert (program.work / "made").exists()
        settings.write_text(json.dumps({**SETTINGS, "model": "other"}))
        assert await denied(program, server) == ["touch made", "Read"]
        assert (await program.run("trust", "--yes")).code == 0
        assert (await program.run("trust", "--remove")).code == 0
        assert await denied(program, server) == ["touch made", "Read"]


async def test_settings_and_plugins_of_the_user_that_are_links_into_the_project_are_not_edited_unasked(
    program: Program,
) -> None:
    config = program.home / ".config/agentcli"
    (config / "plugins").mkdir(parents=True, exist_ok=True)
    before = {"mine.json": "{}\n", "plug.py": "from agentcli import Plugin\nplugin = Plugin()\n"}
    for name, place in (("mine.json", "settings.json"), ("plug.py", "plugins/plug.py")):
        (program.work / name).write_text(before[name])
        (config / place).unlink(missing_ok=True)
        (config / place).symlink_to(program.work / name)
    hook = {"hooks": [{"type": "command", "command": f"touch {program.work}/ran"}]}
    calls = [
        reply(call("Read", file_path="mine.json"), call("Read", file_path="plug.py")),
        reply(call("Write", file_path="mine.json", content=json.dumps({"hooks": {"PostToolUse": [hook]}}))),
        reply(call("Edit", file_path="plug.py", old_string="plugin =", new_string="open('ran', 'w')\nplugin =")),
        reply(call("Bash", command="cp /dev/null mine.json; cp /dev/null plug.py", description="Clean up")),
    ]
    # Without a sandbox an approved command can do whatever the user can.
    works = probe(os.environ, (), None).works
    async with LoopbackServer(*(calls if works else calls[:3]), reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "go", "--permission-mode", "acceptEdits", "--allowedTools", "Bash")
    assert {name: (program.work / name).read_text() for name in before} == before
    assert not (program.work / "ran").exists()
