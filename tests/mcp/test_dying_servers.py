"""Servers that die or hang, at every stage: the session learns why, open calls fail, and no process is left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController, Aborted
from agentcli.core.processes.exit_cleanup import run_exit_cleanup
from agentcli.mcp.configuration import ServerConfig
from agentcli.mcp.connection import McpFailure
from tests.support.mcp_started import hostile, started, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["die-at-start", "die-after-start", "die-in-list"])
async def test_a_server_that_dies_at_its_start_has_failed_with_its_exit_code_and_last_words(mode: str) -> None:
    async with started(mode) as (server, _):
        assert server.state == "failed"
        assert server.error == "exit code 3: the disk is full"
        assert server.log[-1] == "the disk is full"
        with pytest.raises(McpFailure, match=r"bad is not connected \(failed\): exit code 3"):
            await server.call("work", {})


async def test_a_server_that_hangs_at_its_start_has_failed_before_it_has_ended() -> None:
    mute = ServerConfig("bad", "stdio", command="/bin/sh", args=("-c", "trap '' TERM; while :; do sleep 1; done"))
    async with started(mute, start_seconds=0.1, grace_seconds=0.5) as (server, states):
        assert (server.state, server.error) == ("failed", "no answer within 0.1 seconds")
        assert (states, server._task is not None) == (["connecting", "failed"], True)
        await until(lambda: server._task is None)
        assert (server.state, server.error) == ("failed", "no answer within 0.1 seconds")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="setsid")
async def test_a_child_that_left_the_group_of_a_server_that_does_not_end_is_killed(tmp_path: Path) -> None:
    script = f"trap '' TERM; setsid sleep 600 & echo $! > {tmp_path}/pid; while :; do sleep 1; done"
    async with started(
        ServerConfig("bad", "stdio", command="/bin/sh", args=("-c", script)), start_seconds=0.5, grace_seconds=0.1
    ) as (server, _):
        await until(lambda: server._task is None)
        child = int((tmp_path / "pid").read_text())
    await until(lambda: not is_alive(child))


async def test_a_call_fails_at_once_when_the_server_dies() -> None:
    async with started("die-in-call") as (server, states):
        with pytest.raises(McpFailure, match="bad disconnected: exit code 3: the disk is full"):
            await server.call("work", {})
        await until(lambda: server.state == "failed")
        assert server.error == "exit code 3: the disk is full"
        assert states == ["connecting", "connected", "failed"]
        assert server.offers.tools == ()


async def test_all_open_calls_fail_when_the_server_is_killed() -> None:
    async with started("killed") as (server, _):
        first, second = await asyncio.gather(server.call("work", {}), server.call("work", {}), return_exceptions=True)
        assert str(first) == str(second) == "bad disconnected: ended by signal 9 (SIGKILL)"


async def test_a_server_that_closes_its_output_is_gone() -> None:
    async with started("closes-output", grace_seconds=0.05) as (server, _):
        with pytest.raises(McpFailure, match="bad disconnected: closed its output"):
            await server.call("work", {})


async def test_a_dead_server_is_started_again_and_works() -> None:
    async with started("die-after-call", restarts=2, restart_seconds=0.01) as (server, states):
        assert (await server.call("work", {})).content[0].text == "done", "an answer just before the death arrives"
        await until(lambda: states.count("connected") == 2)
        assert (await server.call("work", {})).content[0].text == "done"
        await until(lambda: states.count("connected") == 3)
        assert states[:6] == ["connecting", "connected", "failed", "connecting", "connected", "failed"]


@pytest.mark.parametrize("lasts", [False, True])
async def test_restarts_end_after_a_number_of_tries_in_a_row_unless_a_connection_lasted(lasts: bool) -> None:
    limits = {"restarts": 1, "stable_seconds": 0} if lasts else {"restarts": 2}
    async with started("die-in-call", restart_seconds=0.01, **limits) as (server, states):
        for number in range(3):
            await until(lambda expected=number + 1: states.count("connected") == expected)
            with pytest.raises(McpFailure):
                await server.call("work", {})
        await until(lambda: states.count("connected") == 4 if lasts else server._task is None)
        assert states.count("connected") == (4 if lasts else 3)


async def test_a_server_that_dies_at_its_start_is_retried_once_and_says_when() -> None:
    async with started("die-at-start", restarts=5, restart_seconds=60) as (server, states):
        assert server.error == "exit code 3: the disk is full"
        assert server.retry_seconds == 60
        server.start()
        await until(lambda: states == ["connecting", "failed", "connecting", "failed"])
        assert server.error == "exit code 3: the disk is full"


@pytest.mark.parametrize("by_abort", [True, False])
async def test_an_aborted_or_cancelled_call_ends_and_the_server_is_notified(by_abort: bool) -> None:
    async with started("hang-in-call") as (server, _):
        controller = AbortController()
        calling = asyncio.ensure_future(server.call("work", {}, signal=controller.signal))
        await asyncio.sleep(0.02)
        controller.abort() if by_abort else calling.cancel()
        with pytest.raises(Aborted if by_abort else asyncio.CancelledError):
            await calling
        await until(lambda: "cancelled" in server.log)


async def test_a_call_is_cut_off_and_the_server_notified() -> None:
    async with started(hostile("hang-in-call", timeout=0.05)) as (server, _):
        with pytest.raises(McpFailure, match=r"bad did not answer within 0\.05 seconds"):
            await server.call("work", {})
        await until(lambda: "cancelled" in server.log)
        assert server.state == "connected"


async def test_an_abort_ends_a_call_at_once_even_if_the_server_reads_nothing() -> None:
    async with started("deaf", grace_seconds=0.05) as (server, _):
        controller = AbortController()
        large = {"text": "x" * 1_000_000}
        calling = [asyncio.ensure_future(server.call("work", large, signal=controller.signal)) for _ in range(3)]
        await asyncio.sleep(0.05)
        loop = asyncio.get_running_loop()
        began = loop.time()
        controller.abort()
        answers = await asyncio.gather(*calling, return_exceptions=True)
        assert loop.time() - began < 1
        assert {type(answer) for answer in answers} == {Aborted}


async def test_a_server_that_never_reads_is_disconnected_before_it_takes_the_memory() -> None:
    async with started("deaf", grace_seconds=0.05, unread_bytes=1_000_000) as (server, _):
        with pytest.raises(McpFailure, match="does not read its input"):
            await asyncio.gather(*(server.call("work", {"text": "x" * 500_000}) for _ in range(5)))


# ----------------------------------------------------------------------------------------------- nothing is left behind


@pytest.mark.parametrize("mode", ["stubborn", "ignores-eof"])
async def test_a_server_that_ignores_the_end_of_its_input_is_terminated_then_killed(mode: str) -> None:
    async with started(mode, grace_seconds=0.2) as (server, _):
        assert server.state == "connected"
    if mode == "ignores-eof":
        assert server.log[-1] == "the disk is full"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("mode", ["grandchild", "grandchild-dies"])
async def test_children_of_a_server_end_with_it(mode: str) -> None:
    async with started(mode) as (server, _):
        await until(lambda: server.log)
        child = int(server.log[0].split()[1])
        assert is_alive(child)
        if mode == "grandchild-dies":
            with pytest.raises(McpFailure, match="exit code 3"):
                await server.call("work", {})
    await until(lambda: not is_alive(child))


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 100])
async def test_stopping_at_any_moment_of_the_start_leaves_nothing(turns: int) -> None:
    from agentcli.mcp.configuration import ServerSurroundings
    from agentcli.mcp.protocol import ServerRequests
    from agentcli.mcp.server import McpServer

    server = McpServer(hostile("hang-in-call"), ServerSurroundings(Path.cwd()), ServerRequests())
    server.start()
    for _ in range(turns):
        await asyncio.sleep(0.001)
    await server.stop()
    assert server.state == "waiting"


async def test_the_end_of_agentcli_kills_the_program() -> None:
    async with started("stubborn", grace_seconds=0.2) as (server, _):
        run_exit_cleanup()
        await until(lambda: server.state == "failed")
        assert server.error == "ended by signal 9 (SIGKILL)"


def test_the_end_of_the_event_loop_ends_the_program() -> None:
    pids: list[int] = []

    async def leave_it_running() -> None:
        opened = started("grandchild")
        server, _ = await opened.__aenter__()
        await until(lambda: server.log)
        pids.append(int(server.log[0].split()[1]))

    asyncio.run(leave_it_running())
    asyncio.run(until(lambda: not is_alive(pids[0])))
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)


async def test_disabling_and_closing_last_whatever_was_asked_for_meanwhile() -> None:
    mute = ServerConfig("bad", "stdio", command="/bin/sh", args=("-c", "trap '' TERM; while :; do sleep 1; done"))
    async with started(mute, start_seconds=0.1, grace_seconds=0.2) as (server, _):
        disabling = asyncio.ensure_future(server.disable())
        await asyncio.sleep(0)
        server.start()
        await disabling
        assert (server.state, server._task) == ("disabled", None)
        await server.enable()
        assert server.state == "connecting"
        reconnecting = asyncio.ensure_future(server.reconnect())
        await asyncio.sleep(0)
        await server.close()
        await reconnecting
        assert (server.state, server._task) == ("waiting", None)
