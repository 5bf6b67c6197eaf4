"""What a run leaves behind in the temp folder, whichever way it ends; and which variables its commands get."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Program, Running
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

STREAM = ("-p", "go", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash")
STUBBORN = 'trap "" TERM; touch $TMPDIR/x started; sleep 100; sleep 100'


@pytest.fixture
def temp(program: Program, tmp_path: Path) -> Path:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    folder = tmp_path / "temp"
    folder.mkdir()
    program.environ["TMPDIR"] = str(folder)
    return folder


def left_in(temp: Path) -> list[str]:
    return [path.name for path in temp.iterdir() if path.name.startswith("agentcli-")]


async def started(program: Program) -> Running:
    running = await program.start(*STREAM)
    running.end_input()
    while not (program.work / "started").exists():
        assert running.process.returncode is None
        await asyncio.sleep(0.01)
    return running


async def test_nothing_is_left_after_an_ordinary_end(program: Program, temp: Path) -> None:
    async with LoopbackServer(reply(call("Bash", command="touch $TMPDIR/x; echo $TMPDIR")), "Done.") as server:
        program.talk_to(server.url)
        ended = await program.run(*STREAM)
    assert f"{temp}/agentcli-" in ended.out
    assert left_in(temp) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_nothing_is_left_after_a_signal(program: Program, temp: Path, number: signal.Signals) -> None:
    async with LoopbackServer(reply(call("Bash", command=STUBBORN)), reply(say("x"))) as server:
        program.talk_to(server.url)
        running = await started(program)
        assert left_in(temp)
        running.signal(number)
        await running.finish()
    assert left_in(temp) == []


async def test_nothing_is_left_after_a_second_signal_that_ends_at_once(program: Program, temp: Path) -> None:
    async with LoopbackServer(reply(call("Bash", command=STUBBORN)), reply(say("x"))) as server:
        program.talk_to(server.url)
        running = await started(program)
        running.signal(signal.SIGINT)
        await asyncio.sleep(0.2)
        with contextlib.suppress(ProcessLookupError):
            running.signal(signal.SIGINT)
        await running.finish()
    assert left_in(temp) == []


async def test_leftovers_of_a_killed_process_are_removed_by_the_next_start(program: Program, temp: Path) -> None:
    async with LoopbackServer(reply(call("Bash", command=STUBBORN)), "Done.", "Done.") as server:
        program.talk_to(server.url)
        running = await started(program)
        running.signal(signal.SIGKILL)
        await running.finish()
        assert left_in(temp)
        await program.run(*STREAM)
    assert left_in(temp) == []


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_commands_get_no_secret_but_the_one_that_the_settings_name(program: Program, mode: str) -> None:
    secrets = {"GITHUB_PAT": "s3cr3t-1", "DATABASE_URL": "postgres://u:s3cr3t-2@h/d", "NPM_AUTH": "s3cr3t-3"}
    program.environ |= {
        **secrets,
        "HTTPS_PROXY": "http://u:s3cr3t-4@localhost:9",
        "MY_TOKEN": "wanted",
        "FOO_X": "passed",
    }
    program.environ["NO_PROXY"] = "*"
    settings = json.dumps({"sandbox": {"env": ["MY_TOKEN", "FOO_*"]}})
    async with LoopbackServer(reply(call("Bash", command="env")), "Done.") as server:
        program.talk_to(server.url)
        ended = await program.run(*STREAM, "--sandbox", mode, "--settings", settings)
    assert "s3cr3t" not in ended.out
    assert "HTTPS_PROXY=http://localhost:9" in ended.out
    assert "MY_TOKEN=wanted" in ended.out
    assert "FOO_X=passed" in ended.out
