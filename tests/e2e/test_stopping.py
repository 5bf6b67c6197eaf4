"""Signals and readers that leave: one result, the right exit code, no process left running."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.program import Program, until_gone
from tests.support.scripts import call, fault, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

STREAM = ("-p", "go", "--output-format", "stream-json", "--include-partial-messages")
SLEEPER = 'trap "" TERM; touch started; sleep 100 & sleep 100; sleep 100'
"""It says that it has started only when it no longer heeds SIGTERM: a signal before that would just end it."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_during_a_stream_ends_it_with_a_result(
    program: Program, number: signal.Signals, code: int
) -> None:
    async with LoopbackServer(reply(say("some text"), fault("stall"))) as server:
        program.talk_to(server.url)
        running = await program.start(*STREAM)
        running.end_input()
        while (await running.frame("stream_event"))["event"]["type"] != "content_block_delta":
            pass
        running.signal(number)
        ended = await running.finish()
    assert ended.code == code
    assert ended.frames[-1]["type"] == "result"
    assert ended.frames[-1]["terminal_reason"] == "aborted_streaming"
    assert ended.err == ""


async def test_a_signal_during_a_tool_leaves_no_process(program: Program) -> None:
    async with LoopbackServer(reply(call("Bash", command="sleep 100 & sleep 100")), reply(say("never"))) as server:
        program.talk_to(server.url)
        running = await program.start(*STREAM, "--allowedTools", "Bash")
        running.end_input()
        await running.frame("assistant")
        running.signal(signal.SIGINT)
        ended = await running.finish()
    assert ended.code == 130
    assert ended.frames[-1]["terminal_reason"] in ("aborted_tools", "aborted_streaming")
    assert await until_gone(program.work) == ()


async def test_a_second_signal_does_not_wait_for_a_stubborn_child(program: Program) -> None:
    async with LoopbackServer(reply(call("Bash", command=SLEEPER)), reply(say("x"))) as server:
        program.talk_to(server.url)
        running = await program.start(*STREAM, "--dangerously-skip-permissions")
        running.end_input()
        await running.frame("assistant")
        await _exists(program, "started")
        running.signal(signal.SIGINT)
        await _pause(0.3)
        running.signal(signal.SIGINT)
        ended = await running.finish()
    assert ended.code == 130
    assert await until_gone(program.work) == ()


async def test_termination_is_over_in_two_seconds_whatever_a_child_does(program: Program) -> None:
    async with LoopbackServer(reply(call("Bash", command=SLEEPER)), reply(say("x"))) as server:
        program.talk_to(server.url)
        running = await program.start(*STREAM, "--dangerously-skip-permissions")
        running.end_input()
        await running.frame("assistant")
        await _exists(program, "started")
        running.signal(signal.SIGTERM)
        ended = await running.finish()
    assert ended.code == 143
    assert ended.kinds()[-1] == "error_during_execution", "the result is still printed"
    assert await until_gone(program.work) == ()


async def test_a_reader_that_leaves_stops_the_run_and_its_children(program: Program) -> None:
    """It leaves with the frame of the call, so nothing is written while the command runs."""
    async with LoopbackServer(reply(say("a"), call("Bash", command="sleep 100")), reply(say("never"))) as server:
        program.talk_to(server.url)
        ended = await program.shell(
            "$AGENTCLI | sed '/tool_use/q'; echo ${PIPESTATUS[0]}",
            *STREAM[:-1],
            "--dangerously-skip-permissions",
        )
        assert len(server.bodies) == 1
    *_frames, code = ended.out.splitlines()
    assert (code, ended.err) == ("141", "")
    assert await until_gone(program.work) == ()


async def _exists(program: Program, name: str) -> None:
    while not (program.work / name).exists():
        await _pause(0.01)


async def _pause(seconds: float) -> None:
    """Another process is waited for: there is no clock to be virtual."""
    import asyncio

    await asyncio.sleep(seconds)
