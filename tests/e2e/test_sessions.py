"""Sessions across processes: the prefix of a request survives a restart byte for byte, and so does a kill -9."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, pause, reply, say, think
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

MARKER = b',"cache_control":{"type":"ephemeral"}'


def prefix(raw: bytes) -> bytes:
    """A request up to the end of its last message. Cache markers move with the end and are no content."""
    assert raw.count(MARKER) <= 4
    bare = raw.replace(MARKER, b"")
    end = bare.rindex(b'],"thinking":{"type":"adaptive"')
    return bare[:end]


def check_growing(bodies: list[bytes]) -> None:
    for earlier, later in pairwise(bodies):
        assert later.replace(MARKER, b"").startswith(prefix(earlier))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_prefix_is_the_same_from_turn_to_turn_and_from_process_to_process(program: Program) -> None:
    (program.work / "notes.txt").write_text("one\ntwo\n")
    read = call("Read", file_path="notes.txt")
    script = [
        reply(think("hm"), say("Looking."), read, call("Glob", pattern="*")),
        reply(call("Bash", command="cat notes.txt | wc -l")),
        "There are two lines.",
        reply(think("again"), read),
        "Still two.",
        "And still.",
    ]
    async with LoopbackServer(*script) as server:
        program.talk_to(server.url)
        for arguments in (("count the lines",), ("-c", "again"), ("-c", "--max-turns", "3", "and now?")):
            ended = await program.run("-p", *arguments)
            assert ended.code == 0, ended.err
        bodies = [request.raw for request in server.requests]
    assert len(bodies) == 6
    check_growing(bodies)


@pytest.mark.parametrize("moment", ["prompt", "stream", "tool"])
async def test_a_session_can_be_continued_after_a_kill(program: Program, moment: str) -> None:
    """kill -9 while waiting for the reply, in the middle of it, and while a tool with side effects runs."""
    steps = {
        "prompt": reply(pause(60)),
        "stream": reply(call("Read", file_path="notes.txt"), say("Half a sen"), pause(60)),
        "tool": reply(call("Bash", command="echo done >> effect.txt; sleep 60")),
    }[moment]
    (program.work / "notes.txt").write_text("x\n")
    async with LoopbackServer(steps, "Going on.") as server:
        program.talk_to(server.url)
        running = await program.start(
            "-p", "do it", "--output-format", "stream-json", "--dangerously-skip-permissions", stdin=-3
        )
        if moment == "prompt":
            await until(lambda: bool(server.requests))
        elif moment == "stream":
            # Sooner than the notice that the stream is quiet, which would send any frame.
            async with asyncio.timeout(20):
                await running.frame("user")
        else:
            await until((program.work / "effect.txt").exists)
        running.signal(signal.SIGKILL)
        await running.finish()
        ended = await program.run("-p", "-c", "go on", "--output-format", "json")
        assert ended.code == 0, ended.err
        sent = server.bodies[-1]["messages"]
    assert sent[0]["content"][0]["text"] == "do it", "the prompt is never lost"
    assert str(sent[-1]["content"][-1]["text"]) == "go on"
    if moment == "stream":
        assert "x" in str(sent[2]["content"][0]), "what was shown as done is there"
    if moment == "tool":
        assert sent[2]["content"][0]["is_error"]


async def test_a_session_in_use_is_refused_or_forked(program: Program) -> None:
    async with LoopbackServer("First.", reply(say("x"), pause(60)), "Forked.") as server:
        program.talk_to(server.url)
        await program.run("-p", "one")
        busy = await program.start("-p", "-c", "two", "--output-format", "stream-json", stdin=-3)
        await busy.frame("status")
        refused = await program.run("-p", "-c", "three")
        assert refused.code == 1
        assert "--fork-session" in refused.err
        forked = await program.run("-p", "-c", "--fork-session", "three", "--output-format", "json")
        assert forked.code == 0, forked.err
        busy.signal(signal.SIGTERM)
        await busy.finish()
