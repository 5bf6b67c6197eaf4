"""Pins and drops: what the person does to the context, what it costs, and that every request stays a valid one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent import pinning
from agentcli.agent.pinning import Dropped, Pins, Restored, planned_drop, planned_restore, price_of_drop
from agentcli.agent.questions import Audience
from agentcli.context.compact import pinned_now
from agentcli.context.edits import Edit, block_id, edit_from_dict
from agentcli.context.steps import Situation
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.abort import AbortController
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin
from agentcli.core.usage import Price
from agentcli.session.base import Workplace
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output
from tests.context.logs import Talk, refused, talks
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.compacting import LONG
from tests.support.fakes import Bench, FakeTool, LoopClock, bench, collect, only
from tests.support.scripts import call, reply, think
from tests.support.validate import first_problem
from tests.support.virtual import run_virtual

BIG = "A line of a file that was read, with words in it.\n" * 600


def looking(text: str = BIG) -> FakeTool:
    return FakeTool(output=lambda given: Output(f"{given.get('what')}: {text}"))


def cached_bench(*replies: Any, tools: Any = (), **rest: Any) -> tuple[Bench, PromptCache]:
    """On an API with a cache, in virtual time."""
    cache = PromptCache(least=0)
    cache.clock = lambda: asyncio.get_running_loop().time()
    transport = caching_transport(*replies, cache=cache, on_request=first_problem)
    return bench(transport=transport, tools=tools, **rest), cache


def item(b: Bench, category: str, words: str = "") -> str:
    found = [one.id for one in b.engine.context_items() if one.category == category and words in one.label]
    assert len(found) == 1, found
    return found[0]


# ------------------------------------------------------------------------------------------------------------- drops


def test_after_a_drop_the_next_request_is_smaller_by_what_was_shown() -> None:
    async def main() -> None:
        turns = [reply(call("Look", what="far")), "One.", reply(call("Look", what="near")), "Two.", "Three.", "Four."]
        b, cache = cached_bench(*turns, tools=[looking()])
        async with b.engine:
            await b.run("first")
            await b.run("second")
            await b.run("third")
            before = b.engine.outlook().tokens
            result = next(m for m in b.engine.messages if m.origin is Origin.TOOL_RESULTS)
            price = b.engine.price_of_drop(f"{result.id}:0")
            dropped = b.engine.drop(f"{result.id}:0")
            assert isinstance(dropped, Dropped)
            assert dropped == price
            assert b.engine.outlook().tokens == before - dropped.tokens_per_turn
            events = await b.run("fourth")
        smaller = cache.readings[-2].prompt - cache.readings[-1].prompt
        assert smaller == pytest.approx(dropped.tokens_per_turn, rel=0.1)
        rewritten = cache.readings[-1].written
        assert dropped.once_tokens == pytest.approx(rewritten, rel=0.15)
        rates = b.engine.catalog.get(b.engine.model).price
        assert rates is not None
        anew = rewritten * (rates.cache_write_5m - rates.cache_read) / 1e6
        assert dropped.once_usd == pytest.approx(anew, rel=0.15)
        [broken] = only(events, ev.PrefixBroken)
        assert broken.reason == "you dropped the result of Look"
        assert dropped.also == "with its call"
        said = json.dumps(b.requests[-1])
        assert "far: A line" not in said
        assert "near: A line" in said

    run_virtual(main)


def test_dropping_a_call_drops_its_result_and_thinking_that_leads_nowhere() -> None:
    async def main() -> None:
        both = reply(think("hm"), call("Look", what="far"), call("Look", what="near"))
        b = bench(both, "One.", "Two.", "Three.", "Four.", tools=[looking()])
        async with b.engine:
            await b.run("first")
            await b.run("second")
            replied = next(m for m in b.engine.messages if m.tool_uses)
            far = b.engine.drop(f"{replied.id}:1")
            assert isinstance(far, Dropped)
            assert far.also == "with its result"
            await b.run("third")
            said = json.dumps(b.requests[-1])
            assert '"hm"' in said
            assert "near: A line" in said
            assert "far" not in said
            near = b.engine.drop(f"{replied.id}:2")
            assert isinstance(near, Dropped)
            assert near.also == "with its result and the thinking that led to it"
            await b.run("fourth")
        assert "hm" not in json.dumps(b.requests[-1])
        assert [one.category for one in b.engine.dropped_items()] == [
            "thinking",
            "calls",
            "calls",
            "results",
            "results",
        ]

    run_virtual(main)


def test_what_is_restored_is_there_again_byte_for_byte() -> None:
    async def main() -> None:
        b = bench(reply(think("hm"), call("Look", what="far")), "One.", "Two.", "Three.", tools=[looking()])
        async with b.engine:
            await b.run("first")
            await b.run("second")
            before, tokens = b.engine._parts.view.wire(b.engine.messages), b.engine.outlook().tokens
            replied = next(m for m in b.engine.messages if m.tool_uses)
            for dropped, restored in ((1, 0), (1, 1)):
                down = b.engine.drop(f"{replied.id}:{dropped}")
                assert len(b.engine.dropped_items()) == 3
                up = b.engine.restore(f"{replied.id}:{restored}")
                assert isinstance(down, Dropped)
                assert isinstance(up, Restored)
                assert up.tokens_per_turn == down.tokens_per_turn
                assert b.engine.dropped_items() == []
                assert b.engine._parts.view.wire(b.engine.messages) == before
                assert b.engine.outlook().tokens == tokens
            assert b.engine.restore(f"{replied.id}:1") == pinning.NOT_CHANGED

    run_virtual(main)


def test_what_cannot_be_dropped_says_why() -> None:
    async def main() -> None:
        b = bench(LONG, "A summary.", "On.", tools=[looking()])
        async with b.engine:
            await b.run("tell")
            await collect(b.engine.compact())
            await b.run("go")
            assert b.engine.drop("system") == pinning.SYSTEM
            assert b.engine.drop("tool:Look") == pinning.TOOLS
            assert b.engine.drop("user-context:0") == pinning.INSTRUCTIONS
            assert b.engine.drop(item(b, "summary")) == pinning.SUMMARY
            assert b.engine.drop(item(b, "prompts", "go")) == pinning.LAST_PROMPT
            assert b.engine.drop(item(b, "answers", "On.")) != ""
            assert b.engine.drop("nothing:7") == pinning.NOT_THERE
            assert b.engine.drop("") == pinning.NOT_THERE
            assert b.engine.drop(":") == pinning.NOT_THERE
            assert b.engine.restore("system") == pinning.NOT_CHANGED
            assert b.engine.restore("nothing:7") == pinning.NOT_THERE

    run_virtual(main)


def test_what_the_model_is_working_with_stays_until_it_is_done() -> None:
    async def main() -> None:
        turns: list[Any] = [reply(call("Look", what="old")), "One."]
        turns += [reply(think("hm"), call("Look", what="a")), reply(call("Look", what="b", seconds=5)), "Two."]
        b = bench(*turns, tools=[looking("seen")])
        async with b.engine:
            await b.run("first")

            async def meddle() -> list[Any]:
                await asyncio.sleep(2)
                calls = [one.id for one in b.engine.context_items() if one.category == "calls"]
                return [b.engine.drop(one) for one in calls]

            meddling = asyncio.create_task(meddle())
            await b.run("second")
            old, with_thinking, newest = await meddling
        assert isinstance(old, Dropped)
        assert with_thinking == pinning.IN_USE
        assert newest == pinning.IN_USE
        assert "old" not in json.dumps(b.requests[-1]["messages"])

    run_virtual(main)


# ------------------------------------------------------------------------------------------------------------- price


def situation(**given: Any) -> Situation:
    facts: dict[str, Any] = {"estimate": 10_000, "usable": 100_000, "cached": 9_000, "price": Price.of(3.0, 15.0)}
    return Situation(**{**facts, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "saves 3,100 tokens a turn, costs $0.02 once because the cache after it breaks"),
        ({"cached": 5_000}, "costs less than $0.01 once"),
        ({"cached": 1_000}, "costs nothing because nothing after it is cached"),
        ({"cache_cold": True}, "costs nothing now because the cache has run out anyway"),
        ({"price": None}, "costs 4,900 tokens written anew, at a price that is not known, because the cache"),
    ],
)
def test_the_price_is_told_in_one_line(given: dict[str, Any], words: str) -> None:
    change = pinning.Change((Edit(kind="drop", target="m:0", freed=3_100),), first=1_000)
    assert words in price_of_drop(change, situation(**given)).text


def test_a_second_drop_behind_the_first_costs_nothing_more_and_one_before_it_only_what_lies_between() -> None:
    async def main() -> None:
        calls = [reply(call("Look", what=str(n))) for n in range(4)]
        turns = [one for number, made in enumerate(calls) for one in (made, f"Answer {number}.")]
        b, _cache = cached_bench(*turns, "Last.", "Over.", tools=[looking()])
        async with b.engine:
            for number in range(4):
                await b.run(f"prompt {number}")
            await b.run("and now?")
            results = [one.id for one in b.engine.context_items() if one.category == "results"]
            alone = b.engine.price_of_drop(results[0])
            middle, behind, before = (b.engine.drop(results[n]) for n in (1, 2, 0))
        assert isinstance(alone, Dropped)
        assert isinstance(middle, Dropped)
        assert isinstance(behind, Dropped)
        assert isinstance(before, Dropped)
        assert (behind.once_tokens, behind.once_usd) == (0, 0)
        assert middle.once_tokens > 2 * middle.tokens_per_turn * 0.9
        assert before.once_tokens < alone.once_tokens / 10

    run_virtual(main)


# -------------------------------------------------------------------------------------------------------------- pins


def test_what_is_pinned_survives_compactions_and_drops_beside_it() -> None:
    async def main() -> None:
        both = reply(call("Look", what="far"), call("Look", what="near"))
        b = bench(both, "One.", LONG, "A summary.", "Two.", LONG, "Another.", "Three.", tools=[looking("kept. " * 30)])
        async with b.engine:
            await b.run("first")
            await b.run("second")
            results = [one.id for one in b.engine.context_items() if one.category == "results"]
            assert b.engine.pin(results[1]) is None
            assert b.engine.drop(results[1]) == pinning.PINNED
            assert b.engine.drop(item_of_call(b, "near")) == pinning.PINNED_TOO
            assert isinstance(b.engine.drop(results[0]), Dropped)
            assert b.engine.pins == {results[1]}
            await collect(b.engine.compact())
            assert len(b.engine.pins) == 1
            assert b.engine.pins != {results[1]}
            await b.run("third")
            assert "near: kept." in json.dumps(b.requests[-1])
            assert "far: kept." not in json.dumps(b.requests[-1])
            await b.run("fourth")
            await collect(b.engine.compact())
            await b.run("fifth")
            assert "near: kept." in json.dumps(b.requests[-1])
            [now] = b.engine.pins
            assert [one.id for one in b.engine.context_items() if one.pinned] == [now]
            assert b.engine.unpin(now) is None
            assert b.engine.pins == frozenset()
            assert b.engine.unpin(now) == "It is not pinned."

    run_virtual(main)


def item_of_call(b: Bench, what: str) -> str:
    message = next(m for m in b.engine.messages if m.tool_uses)
    return next(f"{message.id}:{n}" for n, use in enumerate(message.tool_uses) if use.input["what"] == what)


def test_a_pin_made_while_the_model_works_holds_for_a_compaction_of_the_same_submission() -> None:
    async def main() -> None:
        b = bench("One.", "Two.", tools=[looking("x")])
        async with b.engine:
            await b.run("first")
            parts = b.engine._loop_parts(AbortController())
            assert not parts.compact.pinned
            assert b.engine.pin(item(b, "prompts")) is None
            assert list(parts.compact.pinned) == [item(b, "prompts")]

    run_virtual(main)


def test_what_needs_no_pin_says_so() -> None:
    async def main() -> None:
        b = bench("One.", tools=[looking()])
        async with b.engine:
            await b.run("first")
            assert "needs no pin" in (b.engine.pin("system") or "")
            assert "needs no pin" in (b.engine.pin("tool:Look") or "")
            assert b.engine.pin("nothing") == pinning.NOT_THERE
            assert b.engine.unpin("nothing") == pinning.NOT_THERE

    run_virtual(main)


def test_what_a_step_has_shortened_comes_back_whole_and_pinned() -> None:
    async def main() -> None:
        b = bench(reply(call("Look", what="far")), "One.", "Two.", tools=[looking()])
        async with b.engine:
            await b.run("first")
            result = item(b, "results")
            edit = Edit(kind="replace", target=result, text="[cleared]", step="microcompact", freed=5_000)
            b.engine._parts.view.edit([edit], b.engine.messages[-1].id)
            assert b.engine.item_text(result) == "[cleared]"
            restored = b.engine.restore(result)
            assert isinstance(restored, Restored)
            assert restored.tokens_per_turn > 5_000
            assert b.engine.item_text(result) == f"far: {BIG}"
            assert b.engine.pins == {result}

    run_virtual(main)


def test_a_collapsed_span_is_restored_but_not_dropped() -> None:
    async def main() -> None:
        b = bench(BIG, "Two.", "Three.")
        async with b.engine:
            await b.run("first")
            await b.run("second")
            before = b.engine._parts.view.wire(b.engine.messages)
            first, last = b.engine.messages[0].id, b.engine.messages[1].id
            span = Edit(kind="collapse", target=first, through=last, text="It was told.", step="collapse", freed=7_000)
            b.engine._parts.view.edit([span], b.engine.messages[-1].id)
            collapsed = item(b, "summary", "It was told.")
            assert b.engine.drop(collapsed) == pinning.COLLAPSED
            assert isinstance(b.engine.restore(collapsed), Restored)
            assert b.engine._parts.view.wire(b.engine.messages) == before

    run_virtual(main)


# ------------------------------------------------------------------------------------------------------------ resumed


def test_pins_and_drops_survive_a_resume(tmp_path: Path) -> None:
    async def main() -> None:
        workplace = Workplace(tmp_path, Path("/work"), LoopClock(), SequentialIds(), "test")
        store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
        turns: list[Any] = [reply(call("Look", what="far")), "One.", "Two.", "Three."]
        b = bench(*turns, tools=[looking()], store=store)
        async with b.engine:
            await b.run("first")
            await b.run("second")
            b.engine.pin(item(b, "prompts", "first"))
            b.engine.drop(item(b, "results"))
            pins, dropped = b.engine.pins, b.engine.dropped_items()
            assert store.path is not None
            loaded = load_session(store.path)
            view = View()
            for after, edit in loaded.edits:
                view.edit([edit_from_dict(edit)], after)
            other = bench("Three.", tools=[looking()], log=tuple(loaded.messages), view=view, pins=Pins(loaded.pinned))
            async with other.engine:
                assert other.engine.pins == pins
                assert other.engine.dropped_items() == dropped
                await other.run("third")
            await b.run("third")
            assert other.requests[-1]["messages"] == b.requests[-1]["messages"]
            b.engine.unpin(next(iter(pins)))
            assert load_session(store.path).pinned == ()

    run_virtual(main)


# --------------------------------------------------------------------------------------------------------- any of it


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_after_any_drops_pins_and_restores_the_request_is_valid_and_has_what_must_stay(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    view, pins = View(), Pins()
    everything = [block_id(message, n) for message in log for n in range(len(message.content))]
    if not everything:
        return
    sizes = view.estimate(log, 0)
    for _step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(everything))
        action = data.draw(st.sampled_from(("drop", "drop", "restore", "pin")))
        pinned = pinned_now(view.messages(log), pins)
        now = situation(estimate=view.estimate(log, 0), pinned=pinned)
        if action == "pin":
            if any(name == block_id(m, n) for m in view.messages(log) for n in range(len(m.content))):
                pins.add(name)
            continue
        running = data.draw(st.booleans())
        change = planned_drop(view, log, name, now, running=running) if action == "drop" else None
        change = planned_restore(view, log, name, now) if change is None else change
        if isinstance(change, str):
            continue
        assert change.edits
        view.edit(change.edits, log[-1].id)
        assert pinned_now(view.messages(log), pins) == pinned
        assert refused(view, log) == []
        last = next((m for m in reversed(log) if m.origin in (Origin.PROMPT, Origin.QUEUED)), None)
        assert last is None or last in view.messages(log)
    for name in everything:
        change = planned_restore(view, log, name, situation(estimate=0, usable=10**9))
        if not isinstance(change, str):
            view.edit(change.edits, log[-1].id)
    assert view.wire(log) == View().wire(log)
    assert view.estimate(log, 0) == sizes


def test_a_call_whose_id_came_before_is_paired_with_its_own_result() -> None:
    talk = Talk()
    for what in ("a", "b"):
        talk.prompt(what)
        talk.call("Look", {"what": what}, f"result of {what}")
        talk.answer()
    talk.prompt("last")
    same = {block.id: "toolu_same" for message in talk.log for block in message.tool_uses}
    log = [_renamed(message, same) for message in talk.log]
    view = View()
    change = planned_drop(view, log, f"{log[6].id}:0", situation(), running=False)
    assert not isinstance(change, str)
    assert {edit.target for edit in change.edits} == {f"{log[5].id}:0", f"{log[6].id}:0"}


def _renamed(message: Message, ids: dict[str, str]) -> Message:
    from agentcli.core.messages import message_from_dict, message_to_dict

    text = json.dumps(message_to_dict(message))
    for old, new in ids.items():
        text = text.replace(old, new)
    return message_from_dict(json.loads(text))


def test_a_review_is_only_for_where_somebody_is() -> None:
    async def main() -> None:
        for audience, looks in ((Audience.SOMEBODY, True), (Audience.NOBODY, False)):
            b = bench("One.", audience=audience)
            async with b.engine:
                assert b.engine.previews_compaction is looks

    run_virtual(main)
