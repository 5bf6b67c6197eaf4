"""The sandbox as a whole run has it: said in the first frame, refusals explained to the model, strict or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.permissions.sandbox.probe import probe
from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


async def test_the_first_frame_says_what_holds_and_a_refusal_reaches_the_model(program: Program) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    async with LoopbackServer(reply(call("Bash", command="touch /etc/agentcli-planted")), "Done.") as server:
        program.talk_to(server.url)
        ended = await program.run(
            "-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--sandbox", "on"
        )
    frames = [json.loads(line) for line in ended.out.splitlines()]
    assert frames[0]["sandbox"] == "bubblewrap, network on"
    result = next(frame for frame in frames if frame["type"] == "user")
    assert "sandbox.allowWrite" in json.dumps(result)
    assert not Path("/etc/agentcli-planted").exists()
    assert not list(program.work.glob(".envrc"))


async def test_off_is_visible(program: Program) -> None:
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--output-format", "stream-json", "--verbose", "--sandbox", "off")
    assert json.loads(ended.out.splitlines()[0])["sandbox"] == "off"
