"""Auto-compaction that does not help is given up with one notice, and tried again after a change by the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentcli.agent.profile import Profile
from agentcli.context.user_edits import ContextEffect
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message
from tests.context.logs import Talk
from tests.support.compacting import LONG
from tests.support.curating import BIG, cached_bench
from tests.support.fakes import MODEL, Bench, FakeTool, collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.virtual

SMALL = Profile(model=MODEL, small_model="x", system=("Be good.",), context_window=20_000)
"""About 11,800 tokens fit, and from 10,600 on it is compacted."""
HANDOVER = "write a hand-over"


def full_of_pins() -> tuple[tuple[Message, ...], set[str]]:
    """A conversation of which nearly everything that fits is pinned."""
    talk = Talk()
    talk.prompt("look")
    pinned = talk.call("Look", {}, BIG * 2)
    talk.answer(LONG)
    talk.prompt("and?")
    talk.answer(LONG)
    return tuple(talk.log), {pinned}


def pinned_bench(*replies: Json | str, handover: Json | None = None, **rest: Any) -> Bench:
    """A model that says much each time, on a conversation that compacting makes shorter, and never short enough."""
    log, pins = full_of_pins()
    summary = reply("1. Intent: to look.", match=HANDOVER, repeat=True) if handover is None else handover
    script = [summary, *replies, reply(LONG, repeat=True)]
    return cached_bench(*script, log=log, pins=pins, profile=SMALL, **rest)[0]


def tries(events: list[ev.Event]) -> int:
    return len([event for event in only(events, ev.CompactionStarted) if event.trigger == "auto"])


def told(events: list[ev.Event]) -> list[str]:
    return [event.text for event in only(events, ev.NoticeRaised) if event.code == "compact"]


async def test_auto_compaction_that_frees_too_little_is_given_up_across_prompts_and_reported_once() -> None:
    b = pinned_bench()
    runs = [await b.once(f"prompt {number}") for number in range(6)]
    assert only(runs[0], ev.ContextCompacted), "it does make the conversation shorter"
    assert [tries(events) for events in runs] == [1, 1, 1, 0, 0, 0]
    assert [len(told(events)) for events in runs] == [0, 0, 1, 0, 0, 0]
    [text] = told(runs[2])
    assert "3 times in a row" in text
    assert all(way in text for way in ("/compact", "/context", "/model"))


async def test_auto_compaction_is_given_up_within_one_prompt_too() -> None:
    turns = [reply(LONG, call("Look", what=str(number))) for number in range(5)]
    b = pinned_bench(*turns, "Done.", tools=[FakeTool()])
    async with b.engine:
        events = await b.run("look around")
        assert (tries(events), len(told(events))) == (3, 1)
        assert tries(await b.run("again")) == 0


def unpin(b: Bench) -> None:
    [pin] = b.engine.context.pins
    assert b.engine.context.unpin(pin) is None


def drop(b: Bench) -> None:
    answers = [one.id for one in b.engine.context.items() if one.category == "answers"]
    assert isinstance(b.engine.context.drop(answers[0]), ContextEffect)


def other_model(b: Bench) -> None:
    b.engine.set_model("claude-opus-5-5")


async def compact(b: Bench) -> None:
    assert not result_of(await collect(b.engine.compact())).is_error


@pytest.mark.parametrize("change", [unpin, drop, other_model, compact])
async def test_auto_compaction_is_tried_again_after_a_change_by_the_user(change: Callable[[Bench], Any]) -> None:
    b = pinned_bench()
    async with b.engine:
        for number in range(4):
            await b.run(f"prompt {number}")
        if (changing := change(b)) is not None:
            await changing
        assert tries(await b.run("and now?")) == 1


async def test_a_compaction_that_the_user_aborts_is_no_failure() -> None:
    b = pinned_bench(handover=reply({"delay": 60}, "Late.", match=HANDOVER, repeat=True))
    async with b.engine:
        for number in range(5):
            events: list[ev.Event] = []
            async for event in b.engine.submit(f"prompt {number}"):
                events.append(event)
                if isinstance(event, ev.CompactionStarted):
                    b.engine.abort()
            assert (tries(events), told(events)) == (1, [])
