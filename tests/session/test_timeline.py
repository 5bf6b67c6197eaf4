"""The timeline of a session file: prompts, requests, calls and branches, also of runs that went wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentcli.agent.ports import Answer
from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.permission import PermissionMode
from agentcli.session.base import Rewind
from agentcli.session.timeline import PromptStep, read_timeline
from tests.support.fakes import FakeTool, collect
from tests.support.recorded import RecordingClock, recorded, recorded_again, session_file
from tests.support.scripts import call_with_id, fails, fault, pause, reply, say

pytestmark = pytest.mark.virtual


def only_prompt(folder: Path) -> PromptStep:
    [prompt] = read_timeline(session_file(folder)).current
    return prompt


def at(step: PromptStep, moment: str) -> float:
    """Seconds since the prompt."""
    return (_parse(moment) - _parse(step.at)) if moment else -1.0


def _parse(moment: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()


def in_turns(prompt: PromptStep) -> list[tuple[str, str, list[str]]]:
    return [(one.transition, one.outcome, [call.id for call in one.calls]) for one in prompt.requests]


async def test_requests_and_the_calls_that_overlap_their_stream(tmp_path: Path) -> None:
    calls = [call_with_id("toolu_1", "Look", what="a", seconds=3), call_with_id("toolu_2", "Look", what="b", seconds=9)]
    b = recorded(tmp_path, reply(pause(1), calls[0], pause(2), calls[1], pause(2)), "Done.", tools=[FakeTool()])
    await b.once("Look twice")
    prompt = only_prompt(tmp_path)
    assert (prompt.text, prompt.answer) == ("Look twice", "Done.")
    assert prompt.result is not None
    assert prompt.ended_at == prompt.last_at
    first, second = prompt.requests
    assert in_turns(prompt) == [("", "", ["toolu_1", "toolu_2"]), ("next_turn", "", [])]
    assert (first.duration_ms, first.first_ms, first.stop_reason) == (5000, 1000, "tool_use")
    assert (second.stop_reason, first.message_id != second.message_id) == ("end_turn", True)
    assert all(one.request and one.is_reported and one.usage.input_tokens for one in prompt.requests)
    one, other = prompt.calls
    assert [at(prompt, one.started_at), at(prompt, one.ended_at)] == [1, 4]
    assert [at(prompt, other.started_at), at(prompt, other.ended_at)] == [3, 12]
    assert at(prompt, first.ended_at) == 5
    assert one.end is not None
    assert one.end.outcome == "done"
    assert one.title == "Look a"


async def test_a_reply_that_breaks_is_void_with_its_calls_and_the_retry_counts(tmp_path: Path) -> None:
    b = recorded(
        tmp_path,
        reply("Well", call_with_id("toolu_1", "Look", what="a"), fault("drop")),
        fails(529, "Overloaded"),
        reply(call_with_id("toolu_2", "Look", what="b")),
        "Done.",
        tools=[FakeTool()],
    )
    await b.once()
    prompt = only_prompt(tmp_path)
    assert in_turns(prompt) == [("", "void", ["toolu_1"]), ("", "", ["toolu_2"]), ("next_turn", "", [])]
    assert [call.id for call in prompt.calls] == ["toolu_2"]
    retries = [event for _at, event in prompt.events if isinstance(event, ev.RetryScheduled)]
    assert [one.kind for one in retries] == ["connection", "overloaded"]


async def test_a_request_that_fails_for_good_leaves_its_retries_and_the_error(tmp_path: Path) -> None:
    b = recorded(tmp_path, fails(400, "No such thing"))
    await b.once()
    prompt = only_prompt(tmp_path)
    assert prompt.requests == []
    assert prompt.result is not None
    assert prompt.result.is_error
    origins = [event.message.origin for _at, event in prompt.events if isinstance(event, ev.MessageAppended)]
    assert origins == [Origin.ERROR]


async def test_an_answer_of_the_user_is_awaited_between_asked_and_answered(tmp_path: Path) -> None:
    look = FakeTool(need="edit")
    b = recorded(
        tmp_path,
        reply(call_with_id("toolu_1", "Look", what="a")),
        "Done.",
        tools=[look],
        mode=PermissionMode.DEFAULT,
        interactive=True,
    )
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.PermissionRequested):
                asyncio.get_running_loop().call_later(7, b.engine.answer, event.request_id, Answer("allow"))
    [call] = only_prompt(tmp_path).calls
    prompt = only_prompt(tmp_path)
    assert call.answer == "allow"
    assert at(prompt, call.answered_at) - at(prompt, call.asked_at) == 7
    assert at(prompt, call.started_at) >= at(prompt, call.answered_at)


async def test_a_stopped_reply_and_its_aborted_call_are_complete_as_far_as_they_came(tmp_path: Path) -> None:
    b = recorded(
        tmp_path,
        reply(call_with_id("toolu_1", "Look", what="a", seconds=60), say("I am"), pause(30)),
        tools=[FakeTool()],
    )
    async with b.engine:
        asyncio.get_running_loop().call_later(5, b.engine.abort)
        await collect(b.engine.submit("go"))
    prompt = only_prompt(tmp_path)
    assert prompt.result is not None
    assert prompt.result.terminal.startswith("aborted")
    [call] = prompt.calls
    assert call.end is not None
    assert call.end.outcome == "interrupted"
    assert at(prompt, call.ended_at) == 5
    assert in_turns(prompt) == [("", "", ["toolu_1"])]


async def test_a_cut_off_session_has_open_calls_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    b = recorded(
        tmp_path,
        reply(call_with_id("toolu_1", "Look", what="a", seconds=60), call_with_id("toolu_2", "Look"), pause(90)),
        tools=[FakeTool()],
    )
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.ToolStarted):
                break
        file = session_file(tmp_path)
        lines = file.read_bytes()
    file.write_bytes(lines + b'{"type":"assist')
    prompt = only_prompt(tmp_path)
    assert prompt.result is None
    assert prompt.ended_at == ""
    assert [(call.id, call.ended_at) for call in prompt.calls] == [("toolu_1", ""), ("toolu_2", "")]

    again = recorded_again(tmp_path, "Never mind.", tools=[FakeTool()], clock=RecordingClock(3600))
    await again.once("Go on")
    first, second = read_timeline(file).current
    assert in_turns(first) == [("", "cut off", ["toolu_1", "toolu_2"])]
    assert not first.requests[0].is_reported
    assert first.result is None
    assert in_turns(second) == [("", "", [])]
    assert second.parent == first.id
    assert second.result is not None


async def test_queued_prompts_and_side_calls_belong_to_the_prompt_that_runs(tmp_path: Path) -> None:
    b = recorded(tmp_path, reply(call_with_id("toolu_1", "Look", what="a", seconds=5)), "Done.", tools=[FakeTool()])
    async with b.engine:
        asyncio.get_running_loop().call_later(2, b.engine.enqueue, "And the tests?")
        await collect(b.engine.submit("go"))
    prompt = only_prompt(tmp_path)
    queued = [event.message.typed for _at, event in prompt.events if isinstance(event, ev.MessageAppended)]
    assert queued == ["And the tests?"]
    assert len(prompt.requests) == 2


async def test_a_compaction_is_a_side_call_and_a_boundary_and_its_copies_count_once(tmp_path: Path) -> None:
    summary = "<summary>They counted.</summary>"
    counted = reply("One. " * 2000)
    b = recorded(
        tmp_path, counted, reply(call_with_id("toolu_1", "Look")), "Two.", summary, "Three.", tools=[FakeTool()]
    )
    async with b.engine:
        await collect(b.engine.submit("one"))
        await collect(b.engine.submit("two"))
        await collect(b.engine.compact())
        await collect(b.engine.submit("three"))
    _one, two, three = read_timeline(session_file(tmp_path)).current
    assert [(one.purpose, one.is_reported) for one in two.requests] == [
        ("turn", True),
        ("turn", True),
        ("compact", True),
    ]
    origins = [event.message.origin for _at, event in two.events if isinstance(event, ev.MessageAppended)]
    assert origins == [Origin.BOUNDARY]
    assert [call.id for call in two.calls] == ["toolu_1"]
    assert two.calls[0].title == "Look"
    assert [one.purpose for one in three.requests] == ["turn"]
    assert two.result is not None
    assert two.result.turns == 2


async def test_steps_keep_their_order_when_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = RecordingClock()
    b = recorded(
        tmp_path,
        reply(call_with_id("toolu_1", "Look", what="a", seconds=10)),
        reply(pause(1), "Done."),
        "Again.",
        tools=[FakeTool()],
        clock=clock,
    )
    async with b.engine:
        asyncio.get_running_loop().call_later(4, setattr, clock, "ahead", -3600)
        await collect(b.engine.submit("go"))
        await collect(b.engine.submit("again"))
    first, second = read_timeline(session_file(tmp_path)).current
    [call] = first.calls
    moments = [call.started_at, call.ended_at, *(one.ended_at for one in first.requests[1:]), first.ended_at]
    assert moments == sorted(moments)
    assert 1 <= at(first, first.ended_at) <= 11
    assert second.at < first.at, "its own time counts"


async def test_a_rewind_leaves_a_branch(tmp_path: Path) -> None:
    b = recorded(tmp_path, "One.", "Two.")
    async with b.engine:
        await collect(b.engine.submit("one"))
        await collect(b.engine.submit("two"))
    file = session_file(tmp_path)
    _first, second = read_timeline(file).current
    await recorded_again(tmp_path, "Other.", rewind=Rewind(before=second.id)).once("other")
    timeline = read_timeline(file)
    assert [one.text for one in timeline.current] == ["one", "other"]
    assert [one.text for one in timeline.prompts.values()] == ["one", "two", "other"]
    [left, current] = timeline.leaves
    assert [timeline.prompts[id].text for id in left.prompts] == ["one", "two"]
    assert left.branch
    assert timeline.find_leaf(second.id) == left
    assert timeline.find_leaf(timeline.current[0].id) == current
