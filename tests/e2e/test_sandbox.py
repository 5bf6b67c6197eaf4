"""The sandbox in a whole run: reported in the first frame, refusals explained to the model, strict or nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


async def test_the_first_frame_shows_the_sandbox_and_a_refusal_reaches_the_model(program: Program) -> None:
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


async def test_planted_files_are_quarantined_reported_and_restorable(program: Program) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    async with LoopbackServer(reply(call("Bash", command="echo evil > .$(echo en)vrc")), "Done.") as server:
        program.talk_to(server.url)
        ended = await program.run(
            "-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--sandbox", "on"
        )
    result = next(frame for frame in ended.frames if frame["type"] == "user")
    assert "agentcli quarantine restore" in json.dumps(result), "the model knows"
    notices = [frame for frame in ended.frames if frame.get("code") == "quarantine"]
    assert notices, "the user knows"
    assert list(program.work.iterdir()) == []
    (item,) = json.loads((await program.run("quarantine", "list", "--json")).out)
    assert item["path"] == str(program.work / ".envrc")
    assert (await program.run("quarantine", "restore", item["id"])).code == 0
    assert (program.work / ".envrc").read_text() == "evil\n"
    assert "empty" in (await program.run("quarantine", "list")).out


async def test_nothing_appears_in_the_project_when_the_program_is_killed(program: Program) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    subprocess.run(["git", "init", "-q", str(program.work)], check=True)
    before = sorted(program.work.rglob("*"))
    async with LoopbackServer(reply(call("Bash", command="git status; echo up > up; sleep 60"))) as server:
        program.talk_to(server.url)
        running = await program.start(
            "-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--sandbox", "on"
        )
        running.end_input()
        async with asyncio.timeout(20):
            while not (program.work / "up").exists():
                await asyncio.sleep(0.01)
        running.signal(signal.SIGKILL)
        await running.finish()
    assert [path for path in sorted(program.work.rglob("*")) if path.name != "up"] == before


async def test_a_disabled_sandbox_is_visible(program: Program) -> None:
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--output-format", "stream-json", "--verbose", "--sandbox", "off")
    assert json.loads(ended.out.splitlines()[0])["sandbox"] == "off"
