"""Background commands at the end of a headless run, and what a resumed session reports about them."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from tests.e2e.program import Ended, Program, processes_in
from tests.support.scripts import call, pause, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

LASTING = call("Bash", command="sleep 600", run_in_background=True)
WAITING = call("Bash", command="while ! [ -e go ]; do sleep 0.02; done; exit 3", run_in_background=True)
ALLOWED = ("--allowedTools", "Bash")


def result_of(ended: Ended) -> dict[str, object]:
    return ended.frames[-1]


def last_text(server: LoopbackServer) -> str:
    return json.dumps(server.bodies[-1]["messages"][-1], ensure_ascii=False)


async def test_text_output_names_commands_that_were_still_running_and_ended(program: Program) -> None:
    async with LoopbackServer(reply(LASTING), reply(say("Started."))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "serve", *ALLOWED)
    assert (ended.code, ended.out) == (0, "Started.\n")
    assert ended.err == (
        "agentcli: 1 background task was still running and stopped at the end: bash_1 (sleep 600). "
        "--wait-background waits for it.\n"
    )
    assert processes_in(program.work) == []


async def test_the_result_of_json_and_stream_json_lists_them(program: Program) -> None:
    async with LoopbackServer(*[reply(LASTING), reply(say("Started."))] * 2) as server:
        program.talk_to(server.url)
        one = await program.run("-p", "serve", "--output-format", "json", *ALLOWED)
        many = await program.run("-p", "serve", "--output-format", "stream-json", "--verbose", *ALLOWED)
    summary = "ended because agentcli was closed"
    task = {"task_id": "bash_1", "command": "sleep 600", "status": "stopped", "summary": summary}
    assert one.frames[0]["background_tasks"] == [task]
    assert (one.err, result_of(many)["background_tasks"]) == ("", [task])
    told = next(frame for frame in many.frames if frame.get("subtype") == "task_notification")
    assert (told["task_id"], told["status"], told["summary"]) == ("bash_1", "stopped", summary)


async def test_wait_background_lets_the_model_react_to_their_end_in_one_result(program: Program) -> None:
    async with LoopbackServer(reply(WAITING), reply(say("Started.")), reply(say("It failed."))) as server:
        program.talk_to(server.url)
        running = await program.start(
            "-p", "build", "--wait-background", "--output-format", "stream-json", "--verbose", *ALLOWED
        )
        running.end_input()
        while not (text := (await running.frame("assistant"))["message"]["content"][0].get("text")):
            continue
        assert text == "Started."
        (program.work / "go").touch()
        ended = await running.finish()
        assert "exit code 3; no further output" in last_text(server)
    assert ended.code == 0
    told = [frame for frame in ended.frames if frame.get("subtype") == "task_notification"]
    assert [(frame["status"], frame["summary"]) for frame in told] == [("failed", "exit code 3")]
    [result] = [frame for frame in ended.frames if frame["type"] == "result"]
    assert result == ended.frames[-1]
    assert (result["result"], result["num_turns"]) == ("Started.\n\nIt failed.", 3)


async def test_wait_background_lets_an_agent_work_in_the_background_and_report(program: Program) -> None:
    agent = call("Task", description="look", prompt="look", subagent_type="explore", run_in_background=True)
    replies = (reply(pause(0.5), "All is well.", match="You explore"), reply(agent), "Started.", "It reports: well.")
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--wait-background")
        assert "All is well." in last_text(server)
    assert (ended.code, ended.out) == (0, "Started.\n\nIt reports: well.\n")


async def test_a_signal_ends_the_wait_and_the_result_still_comes(program: Program) -> None:
    async with LoopbackServer(reply(LASTING), reply(say("Started."))) as server:
        program.talk_to(server.url)
        running = await program.start(
            "-p", "serve", "--wait-background", "--output-format", "stream-json", "--verbose", *ALLOWED
        )
        running.end_input()
        while not (await running.frame("assistant"))["message"]["content"][0].get("text"):
            continue
        # The answer is there; only the wait keeps the program.
        await asyncio.sleep(0.1)
        running.signal(signal.SIGINT)
        ended = await running.finish()
    assert ended.code == 130
    assert [task["status"] for task in result_of(ended)["background_tasks"]] == ["stopped"]  # type: ignore[attr-defined]
    assert processes_in(program.work) == []


async def test_a_resumed_session_reports_each_command_and_no_id_repeats(program: Program) -> None:
    replies = [reply(LASTING), reply(say("Started.")), reply(call("BashOutput", bash_id="bash_1"), LASTING)]
    async with LoopbackServer(*replies, reply(say("I see.")), reply(say("Yes."))) as server:
        program.talk_to(server.url)
        first = await program.run("-p", "serve", *ALLOWED)
        assert first.code == 0
        second = await program.run("-p", "-c", "and now?", "--output-format", "json", *ALLOWED)
        told = json.dumps(server.bodies[2]["messages"][-1], ensure_ascii=False)
        assert "bash_1 (sleep 600): ended because agentcli was closed; its output is gone" in told
        assert "bash_1 ran before this session was resumed: ended because agentcli was closed" in last_text(server)
        assert [task["task_id"] for task in second.frames[0]["background_tasks"]] == ["bash_2"]
        await program.run("-p", "-c", "again", *ALLOWED)
        again = json.dumps(server.bodies[4]["messages"], ensure_ascii=False)
        assert again.count("bash_1 (sleep 600)") == 1, "told once"
        assert "bash_2 (sleep 600): ended because agentcli was closed" in again


async def test_a_resumed_session_reports_the_exit_code_of_an_ended_command(program: Program) -> None:
    failing = call("Bash", command="sleep 0.3; exit 4", run_in_background=True)
    asking = reply(call("BashOutput", bash_id="bash_1"))
    replies = (reply(failing), reply(say("Started.")), reply(say("It failed.")), asking, reply(say("I see.")))
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        first = await program.run("-p", "build", "--wait-background", *ALLOWED)
        assert first.code == 0, first.err
        await program.run("-p", "-c", "and now?", *ALLOWED)
        told = json.dumps(server.bodies[2]["messages"], ensure_ascii=False)
        asked = last_text(server)
    assert "bash_1 (sleep 0.3; exit 4): exit code 4" in told
    assert "bash_1 ran before this session was resumed: exit code 4" in asked
    assert "agentcli was closed" not in told + asked


# ------------------------------------------------------------------------------------------------ stream-json
