"""What front ends make of a sub-agent's events: nothing of it passes for the main conversation."""

from __future__ import annotations

import asyncio

import pytest

from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.permission import PermissionMode
from agentcli.headless.stream_json import Frames
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import SessionDriver
from agentcli.tui.presenter import Presenter
from tests.interactive.test_driver import Record
from tests.support.fakes import Bench, FakeTool, collect
from tests.support.scripts import call, pause, reply
from tests.support.subagents import WORKER, agent_bench, task
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


def one_agent() -> tuple[Bench, list[ev.Event]]:
    async def main() -> tuple[Bench, list[ev.Event]]:
        b, _children = agent_bench(
            reply("I delegate.", task()),
            "The end.",
            reply("Let me look.", call("Look"), match=WORKER),
            reply("Child's report.", match=WORKER),
            tools=[FakeTool("Look")],
        )
        async with b.engine:
            return b, await collect(b.engine.submit("go"))

    return run_virtual(main)


def test_frames_name_the_call_that_an_agent_works_for() -> None:
    _b, events = one_agent()
    mapping = Frames(SequentialIds())
    frames = [frame for event in events for frame in mapping.frames(event)]
    use = next(one["message"]["content"][0] for one in frames if _is_call(one, "Task"))
    replies = [
        (one["message"]["content"][0].get("text"), one["parent_tool_use_id"])
        for one in frames
        if one["type"] == "assistant" and one["message"]["content"][0]["type"] == "text"
    ]
    assert replies == [
        ("I delegate.", None),
        ("Let me look.", use["id"]),
        ("Child's report.", use["id"]),
        ("The end.", None),
    ]
    results = [one for one in frames if one["type"] == "user"]
    assert [one["parent_tool_use_id"] for one in results] == [use["id"], None]
    subtypes = [one.get("subtype") for one in frames]
    assert subtypes.count("init") == 1
    assert [one for one in subtypes if one and one.startswith("task")] == ["task_started", "task_notification"]
    assert frames[-1]["type"] == "result"


def _is_call(frame: dict[str, object], name: str) -> bool:
    message = frame.get("message")
    return isinstance(message, dict) and message["content"][0].get("name") == name


def test_a_question_between_submissions_starts_no_activity() -> None:
    presenter = Presenter()
    asked = ev.PermissionRequested(
        agent="general-1", request_id="r", tool_use_id="t", name="Bash", input={}, title="Bash make", reason=""
    )
    presenter.show(asked, 0.0)
    resolved = ev.PermissionResolved(agent="general-1", request_id="r", tool_use_id="t", behavior="allow")
    presenter.show(resolved, 0.0)
    assert presenter.activity.phase == ""


async def test_the_question_of_a_background_agent_outlives_the_submission() -> None:
    change = FakeTool("Change", safe=False, need="write")
    b, _children = agent_bench(
        reply(task(run_in_background=True)),
        "Started.",
        reply(pause(5), call("Change"), match=WORKER),
        reply("Changed.", match=WORKER),
        tools=[change],
        mode=PermissionMode.DEFAULT,
        interactive=True,
    )
    record = Record()
    driver = SessionDriver(record)
    driver.open(b.engine)
    driver.send(Draft("go"))
    await asyncio.sleep(20)
    assert not driver.busy
    (question,) = record.asked
    assert question.agent == "general-1"
    # Closing it refuses the call; there is no submission to interrupt.
    driver.answer(question.request_id, None)
    await asyncio.sleep(5)
    assert change.runs == []
    assert b.engine.agents.running == []
    await driver.close()
