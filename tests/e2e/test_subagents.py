"""Sub-agents in the whole program: parallel work, frames for scripts, and a report from the background."""

from __future__ import annotations

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, pause, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


def task(prompt: str, **rest: object) -> dict[str, object]:
    return call("Task", description="look around", prompt=prompt, subagent_type="explore", **rest)


async def test_agents_work_side_by_side_and_their_frames_name_the_call(program: Program) -> None:
    (program.work / "a.txt").write_text("alpha\n")
    replies = (
        reply(call("Read", file_path="a.txt"), match="PART A"),
        reply("Part B.", match="PART B"),
        reply("Part A.", match="You explore"),
        reply(task("PART A"), task("PART B")),
        "Both are done.",
    )
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--output-format", "stream-json", "--verbose")
        main = [body for body in server.bodies if "You explore" not in str(body["system"])]
    assert ended.code == 0
    assert main[0]["tools"] == main[1]["tools"]
    assert main[0]["system"] == main[1]["system"]
    result = ended.frames[-1]
    assert (result["result"], result["num_turns"]) == ("Both are done.", 2)
    assert len(result["modelUsage"]) == 2
    calls = [block["id"] for frame in ended.frames for block in _content(frame) if block.get("name") == "Task"]
    said = {
        block["text"]: frame["parent_tool_use_id"]
        for frame in ended.frames
        if frame["type"] == "assistant"
        for block in _content(frame)
        if block["type"] == "text"
    }
    assert said == {"Part A.": calls[0], "Part B.": calls[1], "Both are done.": None}
    subtypes = [frame["subtype"] for frame in ended.frames if frame.get("subtype", "").startswith("task")]
    assert sorted(subtypes) == ["task_notification"] * 2 + ["task_started"] * 2


async def test_a_background_agent_ends_with_the_run_or_is_waited_for(program: Program) -> None:
    replies = (
        reply(pause(0.5), "The report.", match="You explore", repeat=2),
        *(reply(task("look", run_in_background=True)), "Started.") * 2,
    )
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        stopped = await program.run("-p", "go", "--output-format", "json")
        waited = await program.run("-p", "go", "--output-format", "json", "--wait-background")
    assert [one["status"] for one in stopped.frames[0]["background_tasks"]] == ["stopped"]
    (task_of_waited,) = waited.frames[0]["background_tasks"]
    assert (task_of_waited["task_id"], task_of_waited["status"]) == ("explore-1", "completed")


def _content(frame: dict[str, object]) -> list[dict[str, object]]:
    message = frame.get("message")
    return message["content"] if isinstance(message, dict) else []
