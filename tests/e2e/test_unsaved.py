"""Sessions that cannot be written: said once, the work goes on, and nothing that could be saved is lost."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

NOT_SAVED = "This conversation is not being saved"
NO_STATE = {"AGENTCLI_STATE_DIR": "/dev/null/agentcli"}
"""A state folder that nobody can make, whatever their rights."""
# Only Linux changes the limits of another process.
needs_prlimit = pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")


def session_file(home: Path) -> Path:
    return next(home.glob(".local/state/agentcli/sessions/*/*.jsonl"))


def prompts_in(path: Path) -> list[str]:
    """The prompts of a session file in which every line is whole."""
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    prompts = [record for record in records if record["type"] == "user" and record["origin"] == "prompt"]
    return [prompt["message"]["content"][0]["text"] for prompt in prompts]


@needs_prlimit
async def test_a_full_disk_is_reported_once_and_what_is_missing_is_written_later(tmp_path: Path) -> None:
    async with app_with(tmp_path, *(f"Answer {number}." for number in range(4))) as (app, _server):
        await app.ready()
        await app.submit("first")
        await app.wait_for("Answer 0.")
        path = session_file(app.home)
        limits = resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 200, limits[1]))
        for number in (1, 2):
            await app.submit(f"prompt {number}")
            await app.wait_for(f"Answer {number}.")
        assert app.text.count(NOT_SAVED) == 1
        assert "the file has reached its maximum size" in app.text
        assert prompts_in(path) == ["first"]
        resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE, limits)
        assert await app.leave() == 0
        assert app.text.count(NOT_SAVED) <= 1
    assert prompts_in(path) == ["first", "prompt 1", "prompt 2"]


@needs_prlimit
async def test_what_was_not_saved_is_said_at_exit(tmp_path: Path) -> None:
    async with app_with(tmp_path, "Answer 0.", "Answer 1.", arguments=["--plain"]) as (app, _server):
        await app.wait_for("❯")
        await app.submit("first")
        await app.wait_for("Answer 0.")
        resource.prlimit(app.process.pid, resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
        await app.submit("second")
        await app.wait_for("Answer 1.")
        assert app.text.count(NOT_SAVED) == 1
        assert await app.leave() == 0
        assert app.text.count(NOT_SAVED) == 2
        assert "To continue this session" in app.text
    assert prompts_in(session_file(app.home)) == ["first"]


@pytest.mark.parametrize("arguments", [[], ["--plain"]], ids=["app", "plain"])
async def test_without_a_place_for_sessions_no_command_to_continue_is_shown(
    tmp_path: Path, arguments: list[str]
) -> None:
    async with app_with(tmp_path, "Answer.", arguments=arguments, environ=NO_STATE) as (app, _server):
        await app.wait_for("❯")
        await app.submit("first")
        await app.wait_for("Answer.")
        await app.wait_for(NOT_SAVED)
        assert await app.leave() == 0
        assert "To continue this session" not in app.text


async def test_a_run_without_a_place_for_sessions_answers_and_says_so_once(program: Program) -> None:
    program.environ |= NO_STATE
    async with LoopbackServer("Answer.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "first")
    assert (ended.code, ended.out) == (0, "Answer.\n")
    assert ended.err.count(NOT_SAVED) == 1


async def test_a_torn_last_line_is_cut_and_reported_once(program: Program) -> None:
    async with LoopbackServer("One.", "Two.", "Three.") as server:
        program.talk_to(server.url)
        await program.run("-p", "first")
        path = session_file(program.home)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 30)
        second = await program.run("-p", "-c", "second")
        assert (second.code, second.out) == (0, "Two.\n")
        assert second.err.count("The last record of this session is incomplete and was skipped.") == 1
        third = await program.run("-p", "-c", "third")
        assert (third.out, third.err) == ("Three.\n", "")
        sent = server.bodies[-1]["messages"]
    assert prompts_in(path) == ["first", "second", "third"]
    assert [message["role"] for message in sent] == ["user", "assistant"] * 2 + ["user"]


async def test_processes_that_continue_one_session_at_once_lose_no_line(program: Program) -> None:
    async with LoopbackServer(*["Answer."] * 12) as server:
        program.talk_to(server.url)
        await program.run("-p", "first")
        path = session_file(program.home)
        for attempt in range(2):
            names = [f"{attempt}.{number}" for number in range(4)]
            ended = await asyncio.gather(*(program.run("-p", "-r", path.stem, name) for name in names))
            done = [name for name, one in zip(names, ended, strict=True) if one.code == 0]
            assert done
            assert all("is in use by another process" in one.err for one in ended if one.code)
            assert set(prompts_in(path)) >= set(done)
    assert len(prompts_in(path)) == len(set(prompts_in(path)))
