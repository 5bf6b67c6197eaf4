"""The loop guard: what counts as a loop, who is asked, and what the answer does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.loop.decide import REPEATS, SECONDS, repetition
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.permission import Answer
from tests.support.fakes import Bench, FakeTool, bench, only, result_of
from tests.support.scripts import call, reply
from tests.support.tables import each_row

pytestmark = pytest.mark.virtual

PROMPT = user_message("Do it.", "p", Origin.PROMPT)


def turn(*calls: tuple[str, Json, str]) -> list[Message]:
    uses = tuple(ToolUseBlock(f"t{number}", name, input) for number, (name, input, _result) in enumerate(calls))
    results = tuple(ToolResultBlock(use.id, (TextBlock(one[2]),)) for use, one in zip(uses, calls, strict=True))
    return [
        Message("assistant", uses, "a", Origin.REPLY),
        Message("user", results, "r", Origin.TOOL_RESULTS),
    ]


def read(path: str = "x.py", said: str = "text") -> list[Message]:
    return turn(("Read", {"file_path": path}, said))


def log(*turns: list[Message]) -> list[Message]:
    return [PROMPT, *(message for one in turns for message in one)]


def times(*turns: list[Message], since: int = 0) -> int:
    found = repetition(log(*turns), since)
    return 0 if found is None else found.times


@pytest.mark.parametrize(
    "turns",
    [
        [read(), read(said="other"), read()],
        [read(), read("y.py"), read()],
        [read(said="1"), read(said="2"), read(said="3")],
        [read(), [Message("assistant", (TextBlock("Hm."),), "a", Origin.REPLY)], read(), read()],
        [read(), read(), [user_message("Again, please.", "q", Origin.PROMPT)], read()],
        [read(), read(), [user_message("Do look again.", "q", Origin.QUEUED)], read()],
        [read(), read(), [user_message("So far: …", "s", Origin.SUMMARY)], read()],
    ],
    ids=["other result", "other input", "each another", "an answer", "a prompt", "a queued prompt", "a summary"],
)
def test_messages_that_end_a_series(turns: list[list[Message]]) -> None:
    assert times(*turns) == 0


def test_messages_that_do_not_end_a_series() -> None:
    attached = [user_message("[A file changed.]", "x", Origin.ATTACHMENT)]
    told = [user_message("You repeat yourself.", "x", Origin.RECOVERY)]
    assert times(read(), attached, read(), read(), told, read()) == 4


@each_row(
    ("name", "input", "patience"),
    [
        ("BashOutput", {"bash_id": "1"}, 20),
        ("TodoWrite", {"todos": []}, 6),
        ("Bash", {"command": "make"}, 3),
    ],
)
def test_polling_counts_as_a_loop_only_after_many_repetitions(name: str, input: Json, patience: int) -> None:
    one = turn((name, input, "the same"))
    assert times(*[one] * (patience - 1)) == 0
    assert times(*[one] * patience) == patience


def waiting(seconds: float, times: int) -> list[list[Message]]:
    [use, results] = turn(("Bash", {"command": "sleep 5; check"}, "not yet"))
    return [[use, replace(results, meta={SECONDS: seconds} if seconds else {})]] * times


@each_row(
    ("seconds", "rounds", "background", "expected"),
    [
        (5.0, 9, False, None),
        (5.0, 10, False, (10, 50.0, True)),
        (0.0, 3, False, (3, 0.0, False)),
        (0.0, 9, True, None),
        (0.0, 10, True, (10, 0.0, True)),
    ],
)
def test_calls_that_wait_may_change_and_are_reported_after_ten_rounds(
    seconds: float, rounds: int, background: bool, expected: tuple[int, float, bool] | None
) -> None:
    found = repetition(log(*waiting(seconds, rounds)), background=background)
    assert (found and (found.times, found.seconds, found.can_change)) == expected


def test_approved_repetitions_are_not_counted_again() -> None:
    allowed = len(log(read(), read(), read()))
    assert times(*[read()] * 5, since=allowed) == 0
    assert times(*[read()] * 6, since=allowed) == 3


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), max_size=12))
def test_a_loop_is_detected_exactly_when_the_end_repeats_three_times(steps: list[tuple[str, str]]) -> None:
    found = times(*(read(path, said) for path, said in steps))
    cycles = [
        period
        for period in (1, 2, 3)
        if len(steps) >= REPEATS * period and steps[-2 * period :] == steps[-3 * period : -period]
    ]
    assert (found >= REPEATS) == bool(cycles)


# ---------------------------------------------------------------------------------------------------- in the engine


def asking(*replies: Json | str, **rest: Any) -> Bench:
    return bench(*replies, tools=[FakeTool()], interactive=True, **rest)


async def answered(b: Bench, *answers: Answer) -> list[ev.Event]:
    """Play to the end; the questions get these answers, in turn."""
    left, events = list(answers), []
    async for event in b.engine.submit("go"):
        events.append(event)
        if isinstance(event, ev.PermissionRequested):
            assert b.engine.answer(event.request_id, left.pop(0))
    assert left == []
    assert b.refused == []
    return events


LOOK = reply(call("Look"), repeat=True)


async def test_an_interactive_user_is_asked_and_can_stop_the_loop() -> None:
    b = asking(LOOK)
    async with b.engine:
        events = await answered(b, Answer("deny"))
    [suspected], [asked], [resolved] = (
        only(events, kind) for kind in (ev.LoopSuspected, ev.PermissionRequested, ev.PermissionResolved)
    )
    assert suspected.request_id == asked.request_id == resolved.request_id
    assert asked.display == {"kind": "loop", "text": "Look: the same result 3 times in a row."}
    assert (result_of(events).terminal, len(b.requests)) == ("loop_detected", 3)
    assert result_of(events).errors[0].startswith("Stopped: Look was called 3 times in a row")
    assert not [m for m in b.engine.messages if m.origin is Origin.RECOVERY], "the model has been told nothing"


async def test_a_user_who_continues_is_asked_again_after_three_more_repetitions() -> None:
    b = asking(LOOK)
    async with b.engine:
        events = await answered(b, Answer("allow"), Answer("deny"))
    assert [e.times for e in only(events, ev.LoopSuspected)] == [3, 3]
    assert len(b.requests) == 6


async def test_text_given_with_a_no_is_the_models_next_instruction() -> None:
    b = asking(*[reply(call("Look"))] * 3, "Listening now.")
    async with b.engine:
        events = await answered(b, Answer("deny", message="Listen instead."))
        assert result_of(events).text == "Listening now."
        sent = b.requests[-1]["messages"][-1]["content"]
        assert [block["type"] for block in sent] == ["tool_result", "text"]
        assert sent[-1]["text"] == "Listen instead."


async def test_a_model_that_heeds_the_warning_continues() -> None:
    b = bench(*[reply(call("Look"))] * 3, "I see. Done.", tools=[FakeTool()])
    events = await b.once()
    assert result_of(events).text == "I see. Done."
    assert "Another call will not change that" in str(b.requests[-1]["messages"][-1])


async def test_a_second_loop_ends_the_submission_and_the_next_one_starts_fresh() -> None:
    three, other = [reply(call("Look"))] * 3, [reply(call("Look", what="else"))] * 3
    b = bench(*three, *other, *three, "Done.", tools=[FakeTool()])
    async with b.engine:
        assert result_of(await b.run()).terminal == "loop_detected"
        assert len(b.requests) == 6
        assert result_of(await b.run("again")).text == "Done."


@pytest.mark.parametrize("interactive", [True, False])
async def test_polling_goes_on_with_a_notice_after_every_ten_rounds_and_no_question(interactive: bool) -> None:
    b = bench(
        *[reply(call("Look", seconds=5))] * 25,
        "It is there.",
        tools=[FakeTool(safe=False)],
        interactive=interactive,
    )
    async with b.engine:
        events = await b.run()
        assert result_of(events).text == "It is there."
        assert only(events, ev.PermissionRequested) == []
        assert [(e.times, e.seconds, e.request_id) for e in only(events, ev.LoopSuspected)] == [(10, 50.0, "")] * 2
        told = [message.text for message in b.engine.messages if message.origin is Origin.RECOVERY]
        assert len(told) == 2
        assert "same result 10 times in a row in 50 s" in told[0]
