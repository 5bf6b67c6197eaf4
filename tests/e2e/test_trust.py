"""An untrusted repository: its rules and variables apply only after it was trusted, and only as they were then."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

SETTINGS = {
    "permissions": {"allow": ["Bash(touch *)"], "deny": ["Read(secret.txt)"]},
    "env": {"ANTHROPIC_API_KEY": "x"},
}


async def denied(program: Program, server: LoopbackServer) -> list[str]:
    ended = await program.run("-p", "go", "--output-format", "json", "--no-session-persistence")
    assert ended.code == 0, ended.err
    assert all(request.headers.get("authorization") == "Bearer sk-test" for request in server.requests), "S3: no env"
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
