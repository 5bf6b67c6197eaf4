"""Compaction in the engine: the bytes it sends, what it keeps, preview, undo and abort."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from agentcli.agent.ports import Hooks
from agentcli.agent.profile import Profile, Tuning
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.messages import Json, TextBlock
from agentcli.core.permission import Answer
from agentcli.providers.base import Thinking
from tests.support.compacting import LONG, USED, told, tool
from tests.support.fakes import MODEL, Bench, bench, collect, only, result_of
from tests.support.scripts import call, fails, reply, think

pytestmark = pytest.mark.virtual

TOO_LONG = fails(400, "prompt is too long: 250000 tokens > 200000 maximum", "invalid_request_error")


def without_marks(body: Json) -> list[Any]:
    """The blocks of a request in the order of the prompt cache, without its breakpoints."""

    def bare(block: Json) -> str:
        return json.dumps({key: value for key, value in block.items() if key != "cache_control"})

    blocks = [bare(block) for block in (*body.get("tools", []), *body.get("system", []))]
    for message in body["messages"]:
        blocks += [f"{message['role']} {bare(block)}" for block in message["content"]]
    return blocks


# ----------------------------------------------------------------------------------------------------- the request


@pytest.mark.parametrize("trigger", ["manual", "auto"])
async def test_the_compaction_request_shares_its_prefix_with_the_previous_request(trigger: str) -> None:
    """Including everything else that the cache depends on: model, tools, system, thinking, effort."""

    profile = Profile(
        model=MODEL,
        small_model="x",
        system=("Be good.", "Here."),
        effort="high",
        thinking=Thinking("adaptive"),
        context_window=12_000,
    )
    turns = [reply(think("hm"), call("Look", what="a")), reply(think("so"), LONG, call("Look", what="b"))]
    if trigger == "auto":
        turns[1]["usage"] = USED
        turns += [reply("A summary."), reply("On.")]
    else:
        turns += [reply("There."), reply("A summary.")]
    b = bench(*turns, tools=[tool()], profile=profile, view=ContextView("The rules."))
    async with b.engine:
        events = await b.run("go")
        if trigger == "manual":
            events = await collect(b.engine.compact())
    assert [event.trigger for event in only(events, ev.ContextCompacted)] == [trigger]
    place = next(i for i, body in enumerate(b.requests) if "write a hand-over" in json.dumps(body["messages"][-1]))
    before, asked = b.requests[place - 1], b.requests[place]
    shared = without_marks(before)
    assert without_marks(asked)[: len(shared)] == shared
    for name in ("model", "thinking", "output_config"):
        assert asked.get(name) == before.get(name)
    assert "tool_choice" not in asked
    assert "write a hand-over" in asked["messages"][-1]["content"][-1]["text"]
    assert b.refused == []


async def test_a_request_that_is_too_long_leaves_out_the_oldest_until_it_fits() -> None:
    b = bench(*[reply(f"Answer {n}. " * 50) for n in range(6)], *[TOO_LONG] * 3, "A summary.", "On.")
    async with b.engine:
        for number in range(6):
            await b.run(f"question {number}")
        events = await collect(b.engine.compact())
    asked = [request for request in b.requests if "write a hand-over" in json.dumps(request["messages"][-1])]
    sizes = [len(json.dumps(request)) for request in asked]
    assert len(asked) == 4
    assert sizes == sorted(sizes, reverse=True)
    assert "question 5" in json.dumps(asked[-1])
    assert only(events, ev.ContextCompacted)
    assert b.refused == []


async def test_an_unanswered_prompt_is_part_of_the_request_unless_that_is_too_long() -> None:
    profile = Profile(model=MODEL, small_model="x", context_window=12_000)
    b = bench(reply(LONG, usage=USED), TOO_LONG, "A summary.", "On.", profile=profile)
    async with b.engine:
        await b.run("first")
        await b.run("second " + "word " * 500)
    assert ["second" in json.dumps(request) for request in b.requests] == [False, True, False, True]


# ------------------------------------------------------------------------------------------------- what is left


async def test_prompts_removed_from_the_context_do_not_come_back() -> None:
    b = bench(reply(stop_reason="refusal"), reply(LONG), "A summary.", "On.")
    async with b.engine:
        await b.run("something awful")
        await b.run("something nice")
        await collect(b.engine.compact())
        await b.run("go")
    assert "awful" not in told(b)
    assert "something nice" in told(b)


async def test_a_prompt_that_was_refused_after_a_compaction_does_not_come_back_with_the_next() -> None:
    profile = Profile(model=MODEL, small_model="x", context_window=12_000)
    refusal = reply(stop_reason="refusal")
    b = bench(reply(LONG, usage=USED), "One.", refusal, LONG, "Two.", "On.", profile=profile)
    async with b.engine:
        await b.run("tell")
        events = await b.run("something awful")
        assert only(events, ev.ContextCompacted)
        await b.run("something nice")
        assert not result_of(await collect(b.engine.compact())).is_error
        await b.run("go")
    assert "awful" not in told(b)
    assert "something nice" in told(b)


async def compacted(b: Bench, pinned: frozenset[str]) -> None:
    """A compaction with pins, as the engine would run it."""
    b.engine.session.pins |= pinned
    await collect(b.engine.compact())


async def test_pins_that_leave_nothing_to_gain_are_named_as_the_reason() -> None:
    b = bench(LONG, "A summary that takes some room too. " * 20, "On.")
    async with b.engine:
        await b.run("tell")
        before = b.engine.messages
        await compacted(b, frozenset(f"{m.id}:0" for m in before))
        assert b.engine.messages == before


# ---------------------------------------------------------------------------------------------------------- hooks


class Told(Hooks):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_compact(self, trigger: str, focus: str) -> str:
        self.seen.append(f"before {trigger} {focus}")
        return f"{focus} and the hook's"

    async def after_compact(self, trigger: str) -> None:
        self.seen.append(f"after {trigger}")


async def test_hooks_run_before_and_after_and_may_change_the_focus() -> None:
    hooks = Told()
    b = bench(LONG, fails(400, "no", "invalid_request_error"), "A summary.", hooks=hooks)
    async with b.engine:
        await b.run("tell")
        await collect(b.engine.compact("mine"))
        await collect(b.engine.compact("mine"))
    assert hooks.seen == ["before manual mine", "before manual mine", "after manual"]
    assert "mine and the hook's" in told(b)


# --------------------------------------------------------------------------------------------------------- preview


async def reviewed(b: Bench, answer: Answer | None) -> list[ev.Event]:
    events: list[ev.Event] = []
    async with aclosing(b.engine.compact(review=True)) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, ev.CompactionProposed):
                if answer is None:
                    b.engine.abort()
                else:
                    assert b.engine.answer(event.request_id, answer)
    return events


def somebody(*replies: Json | str) -> Bench:
    return bench(LONG, *replies, interactive=True)


async def test_a_proposal_lists_kept_and_removed_content_with_its_price() -> None:
    b = bench(LONG, reply(call("Look")), "Here.", "A summary.", tools=[tool()], interactive=True)
    async with b.engine:
        await b.run("Never use tabs.")
        await b.run("look")
        events = await reviewed(b, Answer("allow"))
    (proposed,) = only(events, ev.CompactionProposed)
    (done,) = only(events, ev.ContextCompacted)
    assert proposed.summary == "A summary."
    assert (proposed.tokens_before, proposed.tokens_after) == (done.tokens_before, done.tokens_after)
    assert proposed.cost_usd > 0
    assert proposed.kept[-2].startswith("1 message of yours, word for word (about ")
    assert proposed.kept[-1].startswith("the last 4 messages as they were")
    assert [line.partition(" (")[0] for line in proposed.dropped] == ["1 model reply"]
    assert proposed.turn_usd_after is not None
    assert event_from_dict(event_to_dict(proposed)) == proposed


async def test_an_edited_summary_replaces_the_proposed_one() -> None:
    b = somebody("A summary.", "On.")
    async with b.engine:
        await b.run("tell")
        events = await reviewed(b, Answer("allow", updated_input={"summary": "My own words."}))
        await b.run("go")
    assert not result_of(events).is_error
    assert "My own words." in told(b)
    assert "A summary." not in told(b)


@pytest.mark.parametrize(
    "answer", [Answer("deny"), None, Answer("allow", updated_input={"summary": " "})], ids=["no", "abort", "emptied"]
)
async def test_a_rejected_proposal_changes_nothing(answer: Answer | None) -> None:
    b = somebody("A summary.", "On.")
    async with b.engine:
        await b.run("tell")
        before = b.engine.messages
        events = await reviewed(b, answer)
        assert b.engine.messages == before
        assert not b.engine.session.questions._open
        assert len(only(events, ev.CompactionFailed)) == 1
        assert result_of(events).is_error == (answer is None or answer.behavior != "deny")


async def test_an_edited_summary_that_is_too_long_is_refused() -> None:
    b = somebody("A summary.")
    async with b.engine:
        await b.run("tell")
        events = await reviewed(b, Answer("allow", updated_input={"summary": LONG * 2}))
    assert "longer than what it replaces" in only(events, ev.CompactionFailed)[0].text


# ------------------------------------------------------------------------------------------- what is in the restored


async def test_auto_compaction_off_and_on_share_one_implementation() -> None:
    profile = Profile(model=MODEL, small_model="x", context_window=12_000)
    for tuning, trigger in ((Tuning(), "auto"), (Tuning(auto_compact=False), "reactive")):
        blocked = [] if trigger == "auto" else [TOO_LONG]
        b = bench(reply(LONG, usage=USED), *blocked, "A summary.", "On.", profile=profile, tuning=tuning)
        async with b.engine:
            await b.run("Never use tabs.")
            events = await b.run((TextBlock("second"),))  # type: ignore[arg-type]
        assert [event.trigger for event in only(events, ev.ContextCompacted)] == [trigger]
        assert "Never use tabs." in told(b)
        assert told(b).count("second") == 1
