"""Sub-agents in the whole program: parallel work, frames for scripts, and the report of a background agent."""

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


async def test_a_run_with_one_prompt_waits_for_the_report_of_a_background_agent(program: Program) -> None:
    replies = (
        reply(pause(0.5), "The report.", match="You explore"),
        reply(task("look", run_in_background=True)),
        "It has reported.",
    )
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--output-format", "json")
        last = server.bodies[-1]["messages"][-1]
    assert ended.frames[0]["result"] == "It has reported."
    assert ended.frames[0]["background_tasks"] == []
    assert "The report." in str(last)


def _content(frame: dict[str, object]) -> list[dict[str, object]]:
    message = frame.get("message")
    return message["content"] if isinstance(message, dict) else []
