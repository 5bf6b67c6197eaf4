"""Drops: what is removed together, what cannot be dropped, the price, and the smaller next request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentcli.context import user_edits as pinning
from agentcli.context.edits import ContextEdit
from agentcli.context.user_edits import ContextEffect, effect_of, planned_drop
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.messages import Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from tests.context.logs import Talk
from tests.support.compacting import LONG
from tests.support.curating import cached_bench, item, looking, state
from tests.support.fakes import bench, collect, only
from tests.support.scripts import call, reply, think
from tests.support.tables import each_row

pytestmark = pytest.mark.virtual

# ------------------------------------------------------------------------------------------------------------- drops


async def test_after_a_drop_the_next_request_is_smaller_by_the_announced_amount() -> None:
    turns = [reply(call("Look", what="far")), "One.", reply(call("Look", what="near")), "Two.", "Three.", "Four."]
    b, cache = cached_bench(*turns, tools=[looking()])
    async with b.engine:
        await b.run("first")
        await b.run("second")
        await b.run("third")
        before = b.engine.context.outlook().tokens
        result = next(m for m in b.engine.messages if m.origin is Origin.TOOL_RESULTS)
        price = b.engine.context.price_of_drop(f"{result.id}:0")
        dropped = b.engine.context.drop(f"{result.id}:0")
        assert isinstance(dropped, ContextEffect)
        assert dropped == price
        assert b.engine.context.outlook().tokens == before - dropped.tokens_per_turn
        events = await b.run("fourth")
    smaller = cache.readings[-2].prompt - cache.readings[-1].prompt
    assert smaller == pytest.approx(dropped.tokens_per_turn, rel=0.1)
    rewritten = cache.readings[-1].written
    assert dropped.once_tokens == pytest.approx(rewritten, rel=0.15)
    rates = b.engine.session.catalog.get(b.engine.model).price
    assert rates is not None
    anew = rewritten * (rates.cache_write_5m - rates.cache_read) / 1e6
    assert dropped.once_usd == pytest.approx(anew, rel=0.15)
    [broken] = only(events, ev.PrefixBroken)
    assert broken.reason == "you dropped the result of Look"
    assert dropped.also == "with its call"
    said = json.dumps(b.requests[-1])
    assert "far: A line" not in said
    assert "near: A line" in said


async def test_dropping_a_call_drops_its_result_and_orphaned_thinking() -> None:
    both = reply(think("hm"), call("Look", what="far"), call("Look", what="near"))
    b = bench(both, "One.", "Two.", "Three.", "Four.", tools=[looking()])
    async with b.engine:
        await b.run("first")
        await b.run("second")
        replied = next(m for m in b.engine.messages if m.tool_uses)
        far = b.engine.context.drop(f"{replied.id}:1")
        assert isinstance(far, ContextEffect)
        assert far.also == "with its result"
        await b.run("third")
        said = json.dumps(b.requests[-1])
        assert '"hm"' in said
        assert "near: A line" in said
        assert "far" not in said
        near = b.engine.context.drop(f"{replied.id}:2")
        assert isinstance(near, ContextEffect)
        assert near.also == "with its result and the thinking that led to it"
        await b.run("fourth")
    assert "hm" not in json.dumps(b.requests[-1])
    assert [one.category for one in b.engine.context.dropped_items()] == [
        "thinking",
        "calls",
        "calls",
        "results",
        "results",
    ]


async def test_a_restored_item_is_identical_byte_for_byte() -> None:
    b = bench(reply(think("hm"), call("Look", what="far")), "One.", "Two.", "Three.", tools=[looking()])
    async with b.engine:
        await b.run("first")
        await b.run("second")
        before, tokens = (
            b.engine.session.view.wire(b.engine.messages),
            b.engine.context.outlook().tokens,
        )
        replied = next(m for m in b.engine.messages if m.tool_uses)
        for dropped, restored in ((1, 0), (1, 1)):
            down = b.engine.context.drop(f"{replied.id}:{dropped}")
            assert len(b.engine.context.dropped_items()) == 3
            up = b.engine.context.restore(f"{replied.id}:{restored}")
            assert isinstance(down, ContextEffect)
            assert isinstance(up, ContextEffect)
            assert up.tokens_per_turn == down.tokens_per_turn
            assert b.engine.context.dropped_items() == []
            assert b.engine.session.view.wire(b.engine.messages) == before
            assert b.engine.context.outlook().tokens == tokens
        assert b.engine.context.restore(f"{replied.id}:1") == pinning.NOT_CHANGED


async def test_an_item_that_cannot_be_dropped_has_a_reason() -> None:
    b = bench(LONG, "A summary.", "On.", tools=[looking()])
    async with b.engine:
        await b.run("tell")
        await collect(b.engine.compact())
        await b.run("go")
        assert b.engine.context.drop("system") == pinning.SYSTEM
        assert b.engine.context.drop("tool:Look") == pinning.TOOLS
        assert b.engine.context.drop("user-context:0") == pinning.INSTRUCTIONS
        assert b.engine.context.drop(item(b, "summary")) == pinning.SUMMARY
        assert b.engine.context.drop(item(b, "prompts", "go")) == pinning.LAST_PROMPT
        assert b.engine.context.drop(item(b, "answers", "On.")) != ""
        assert b.engine.context.drop("nothing:7") == pinning.NOT_THERE
        assert b.engine.context.drop("") == pinning.NOT_THERE
        assert b.engine.context.drop(":") == pinning.NOT_THERE
        assert b.engine.context.restore("system") == pinning.NOT_CHANGED
        assert b.engine.context.restore("nothing:7") == pinning.NOT_THERE


async def test_results_of_the_current_turn_cannot_be_dropped() -> None:
    turns: list[Any] = [reply(call("Look", what="old")), "One."]
    turns += [reply(think("hm"), call("Look", what="a")), reply(call("Look", what="b", seconds=5)), "Two."]
    b = bench(*turns, tools=[looking("seen")])
    async with b.engine:
        await b.run("first")

        async def meddle() -> list[Any]:
            await asyncio.sleep(2)
            calls = [one.id for one in b.engine.context.items() if one.category == "calls"]
            return [b.engine.context.drop(one) for one in calls]

        meddling = asyncio.create_task(meddle())
        await b.run("second")
        old, with_thinking, newest = await meddling
    assert isinstance(old, ContextEffect)
    assert with_thinking == pinning.IN_USE
    assert newest == pinning.IN_USE
    assert "old" not in json.dumps(b.requests[-1]["messages"])


def test_thinking_stays_while_its_results_wait_for_an_answer_also_when_nothing_runs() -> None:
    talk = Talk()
    talk.prompt("look")
    talk._add("assistant", [ThinkingBlock("old", "s"), TextBlock("There.")], Origin.REPLY)
    talk.prompt("look again")
    for number in range(2):
        use = ToolUseBlock(f"toolu_{number}", "Look", {})
        talk._add("assistant", [ThinkingBlock(f"hm {number}", "s"), use], Origin.REPLY)
        talk._add("user", [ToolResultBlock(use.id, (TextBlock("seen"),))], Origin.TOOL_RESULTS)
    # Interrupted here: the next prompt joins the results.
    view = ContextView()
    for prompted in (False, True):
        if prompted:
            talk.prompt("and now?")
        outcomes = {place: planned_drop(view, talk.log, f"m{place}:0", state(), running=False) for place in (1, 3, 5)}
        assert not isinstance(outcomes.pop(1), str)
        assert set(outcomes.values()) == {pinning.UNANSWERED}
        pair = planned_drop(view, talk.log, "m5:1", state(), running=False)
        assert not isinstance(pair, str)
        assert pair.also == "with its result and the thinking that led to it"
    talk.answer()
    talk.prompt("thanks")
    assert not isinstance(planned_drop(view, talk.log, "m5:0", state(), running=False), str)


# ------------------------------------------------------------------------------------------------------------- price


@each_row(
    ("given", "words"),
    [
        ({}, "saves 3,100 tokens a turn, costs $0.017 once because the cache after it breaks"),
        ({"cached": 5_000}, "costs $0.0031 once"),
        ({"cached": 1_000}, "costs nothing because nothing after it is cached"),
        ({"cache_cold": True}, "costs nothing because the cache has expired"),
        ({"price": None}, "costs 4,900 tokens written again, at an unknown price, because the cache"),
    ],
)
def test_the_price_is_shown_in_one_line(given: dict[str, Any], words: str) -> None:
    change = pinning.ContextChange((ContextEdit(kind="drop", target="m:0", freed=3_100),), first=1_000)
    assert words in effect_of(change, state(**given)).text


async def test_a_later_drop_is_free_and_an_earlier_one_costs_only_the_part_in_between() -> None:
    calls = [reply(call("Look", what=str(n))) for n in range(4)]
    turns = [one for number, made in enumerate(calls) for one in (made, f"Answer {number}.")]
    b, _cache = cached_bench(*turns, "Last.", "Over.", tools=[looking()])
    async with b.engine:
        for number in range(4):
            await b.run(f"prompt {number}")
        await b.run("and now?")
        results = [one.id for one in b.engine.context.items() if one.category == "results"]
        alone = b.engine.context.price_of_drop(results[0])
        middle, behind, before = (b.engine.context.drop(results[n]) for n in (1, 2, 0))
    assert isinstance(alone, ContextEffect)
    assert isinstance(middle, ContextEffect)
    assert isinstance(behind, ContextEffect)
    assert isinstance(before, ContextEffect)
    assert (behind.once_tokens, behind.once_usd) == (0, 0)
    assert middle.once_tokens > 2 * middle.tokens_per_turn * 0.9
    assert before.once_tokens < alone.once_tokens / 10


def test_a_call_whose_id_came_before_is_paired_with_its_own_result() -> None:
    talk = Talk()
    for what in ("a", "b"):
        talk.prompt(what)
        talk.call("Look", {"what": what}, f"result of {what}")
        talk.answer()
    talk.prompt("last")
    same = {block.id: "toolu_same" for message in talk.log for block in message.tool_uses}
    log = [_renamed(message, same) for message in talk.log]
    view = ContextView()
    change = planned_drop(view, log, f"{log[6].id}:0", state(), running=False)
    assert not isinstance(change, str)
    assert {edit.target for edit in change.edits} == {f"{log[5].id}:0", f"{log[6].id}:0"}


def _renamed(message: Message, ids: dict[str, str]) -> Message:
    from agentcli.core.messages import message_from_dict, message_to_dict

    text = json.dumps(message_to_dict(message))
    for old, new in ids.items():
        text = text.replace(old, new)
    return message_from_dict(json.loads(text))
