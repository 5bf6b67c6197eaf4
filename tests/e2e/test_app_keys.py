"""Keys that stop, queue, steer and quit, during any activity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripts import call, fails, fault, reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with, processes_in

pytestmark = pytest.mark.anyio

STALLS = reply(say("a beginning"), fault("stall"))


def said(server: LoopbackServer, number: int = -1) -> str:
    """All that the messages of a request say."""
    return json.dumps(server.bodies[number]["messages"], ensure_ascii=False)


async def next_prompt_works(app: TerminalProgram, answer: str = "works again") -> None:
    await app.submit("and now this")
    await app.wait_for(answer)


# ------------------------------------------------------------------------------------------------------------- Esc


async def test_escape_stops_a_stream_a_retry_a_dialog_a_tool_or_a_compaction_and_the_next_prompt_works(
    tmp_path: Path,
) -> None:
    replies = (
        *(STALLS, reply("after the stream")),
        *(fails(529, "Overloaded", headers={"retry-after": "50"}), reply("after the retry")),
        *(reply(call("Write", file_path="it", content="x")), reply("after the dialog")),
        *(reply(call("Bash", command="sleep 300 & sleep 300")), reply("after the tool")),
        *(STALLS, reply("after the compaction")),
    )
    arguments = ["--allowedTools", "Bash"]
    async with app_with(tmp_path, *replies, arguments=arguments, rows=100) as (app, server):
        await app.ready()

        async def escape(times: int) -> None:
            await app.press("escape")
            await app.wait_for(lambda: app.text.count("Interrupted.") == times)

        await app.submit("go")
        await app.wait_for("a beginning")
        await escape(1)
        await app.wait_for(lambda: server.closed_at)
        await next_prompt_works(app, "after the stream")
        assert "a beginning" in said(server), "what had come is kept"

        await app.submit("go")
        await app.wait_for("next in")
        assert "529" in app.text
        await escape(2)
        assert len(server.bodies) == 3
        await next_prompt_works(app, "after the retry")

        await app.submit("go")
        await app.wait_for("Create this file?")
        await escape(3)
        await app.wait_for("Create this file?", gone=True)
        await next_prompt_works(app, "after the dialog")
        assert not (app.work / "it").exists()

        await app.submit("go")
        await app.wait_for(lambda: len(processes_in(app.work)) >= 3)
        await escape(4)
        await app.wait_for(lambda: processes_in(app.work) == [app.process.pid])  # the whole process group ended
        await next_prompt_works(app, "after the tool")
        assert said(server).count('"tool_result"') == 2

        await app.submit("/compact")
        await app.wait_for(lambda: len(server.bodies) == 9)
        await escape(5)
        await app.wait_for(lambda: len(server.closed_at) == 2)
        await next_prompt_works(app, "after the compaction")
        for kept in ("a beginning", "after the stream", "after the tool"):
            assert kept in said(server), "the conversation is as it was"
        assert await app.leave() == 0


SLOW_START = """
from pathlib import Path
from agentcli.interactive.login import model_access
build = model_access._built
def slowly(options):
    import time
    while not Path("go").exists():
        time.sleep(0.01)
    return build(options)
model_access._built = slowly
from agentcli.__main__ import main
main()
"""
"""The program, whose engine is made once there is a file `go`."""


async def test_escape_before_the_engine_is_ready_returns_the_prompt(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("works again"), command=("-c", SLOW_START)) as (app, server):
        await app.submit("too early")
        await app.wait_for("Starting")
        await app.press("escape")
        await app.wait_for("Interrupted")
        await app.wait_for(lambda: app.box == "too early")
        (app.work / "go").touch()
        await app.ready()
        await next_prompt_works(app)
        assert "too earlyand now this" in said(server)
        assert len(server.bodies) == 1
        assert await app.leave() == 0


# --------------------------------------------------------------------------------------------------- queue and steer


async def test_a_prompt_sent_during_work_waits_and_up_withdraws_it_or_it_replaces_the_work(tmp_path: Path) -> None:
    replies = (STALLS, reply("sent later"), STALLS, reply("replaced once"), STALLS, reply("replaced twice"))
    async with app_with(tmp_path, *replies, rows=60) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("a beginning")
        await app.submit("for later")
        await app.wait_for(lambda: app.box != "for later" and "for later" in app.text)
        await app.submit("much later")
        await app.wait_for(lambda: app.box != "much later" and "much later" in app.text)
        await app.press("up")
        await app.wait_for(lambda: app.box == "much later")
        await app.press("ctrl+c")
        await app.wait_for("Interrupted")
        await app.wait_for(lambda: "for later" in app.box)
        assert len(server.bodies) == 1
        await app.press("enter")
        await app.wait_for("sent later")
        assert "for later" in said(server)

        for count, keys, answer in ((2, ["ctrl+enter"], "replaced once"), (3, ["enter", "enter"], "replaced twice")):
            await app.submit("go")
            await app.wait_for(lambda count=count: app.text.count("a beginning") == count)
            await app.type(f"no, this {count} instead")
            await app.press(*keys)
            await app.wait_for(answer)
            assert len(server.closed_at) == count
            assert f"no, this {count} instead" in said(server)
        assert await app.leave() == 0


# ----------------------------------------------------------------------------------------------------------- leaving


async def test_ctrl_c_first_clears_the_box_and_then_announces_that_another_quits(tmp_path: Path) -> None:
    async with app_with(tmp_path) as (app, _server):
        await app.ready()
        await app.type("half a thought")
        await app.wait_for("half a thought")
        await app.press("ctrl+c")
        await app.wait_for("half a thought", gone=True)
        await app.press("ctrl+c")
        await app.wait_for("Ctrl+C again quits")
        await app.press("ctrl+c")
        assert await app.end() == 0
        assert app.is_restored


async def test_quitting_during_a_tool_leaves_no_process(tmp_path: Path) -> None:
    async with app_with(
        tmp_path, reply(call("Bash", command="sleep 300 & sleep 300")), arguments=["--allowedTools", "Bash"]
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for(lambda: len(processes_in(app.work)) >= 3)
        await app.press("ctrl+c", "ctrl+c")
        assert await app.end() == 0
        assert app.is_restored
