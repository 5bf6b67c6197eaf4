"""Pins: they survive everything; and after any pins, drops and restores every request stays a valid one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import UNKNOWN
from agentcli.context import user_edits as pinning
from agentcli.context.compact import find_pinned, pin_name
from agentcli.context.edits import ContextEdit, block_id, edit_from_dict
from agentcli.context.user_edits import ContextEffect, effect_of, plan_drop, plan_restore
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.context.logs import Talk, refused, talks
from tests.support.cacheserver import PromptCache
from tests.support.compacting import LONG
from tests.support.curating import BIG, cached_bench, item, looking, state
from tests.support.fakes import Bench, LoopClock, bench, collect, only
from tests.support.scripts import call, pause, reply, say, think
from tests.support.tables import each_row
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

# -------------------------------------------------------------------------------------------------------------- pins


async def test_pinned_content_survives_compactions_and_drops_beside_it() -> None:
    both = reply(call("Look", what="far"), call("Look", what="near"))
    b = bench(both, "One.", LONG, "A summary.", "Two.", LONG, "Another.", "Three.", tools=[looking("kept. " * 30)])
    async with b.engine:
        await b.run("first")
        await b.run("second")
        results = [one.id for one in b.engine.context.items() if one.category == "results"]
        assert b.engine.context.pin(results[1]) is None
        assert b.engine.context.drop(results[1]) == pinning.PINNED
        assert b.engine.context.drop(item_of_call(b, "near")) == pinning.PINNED_TOO
        assert isinstance(b.engine.context.drop(results[0]), ContextEffect)
        assert b.engine.context.pins == {results[1]}
        await collect(b.engine.compact())
        assert len(b.engine.context.pins) == 1
        assert b.engine.context.pins != {results[1]}
        await b.run("third")
        assert "near: kept." in json.dumps(b.requests[-1])
        assert "far: kept." not in json.dumps(b.requests[-1])
        await b.run("fourth")
        await collect(b.engine.compact())
        await b.run("fifth")
        assert "near: kept." in json.dumps(b.requests[-1])
        [now] = b.engine.context.pins
        assert [one.id for one in b.engine.context.items() if one.pinned] == [now]
        assert b.engine.context.unpin(now) is None
        assert b.engine.context.pins == frozenset()
        assert b.engine.context.unpin(now) == "It is not pinned."


def item_of_call(b: Bench, what: str) -> str:
    message = next(m for m in b.engine.messages if m.tool_uses)
    return next(f"{message.id}:{n}" for n, use in enumerate(message.tool_uses) if use.input["what"] == what)


async def test_pinning_an_item_that_always_stays_is_refused_with_the_reason() -> None:
    b = bench(reply(think("hm"), "One."), tools=[looking()])
    async with b.engine:
        await b.run("first")
        assert "needs no pin" in (b.engine.context.pin("system") or "")
        assert "needs no pin" in (b.engine.context.pin("tool:Look") or "")
        assert b.engine.context.pin("nothing") == pinning.NOT_THERE
        assert "cannot be pinned alone" in (b.engine.context.pin(item(b, "thinking")) or "")
        assert b.engine.context.unpin("nothing") == pinning.NOT_THERE


async def test_a_shortened_result_is_restored_in_full_when_pinned() -> None:
    b = bench(reply(call("Look", what="far")), "One.", "Two.", tools=[looking()])
    async with b.engine:
        await b.run("first")
        result = item(b, "results")
        edit = ContextEdit(kind="replace", target=result, text="[cleared]", step="microcompact", freed=5_000)
        b.engine.session.view.edit([edit], b.engine.messages[-1].id)
        assert b.engine.context.item_text(result) == "[cleared]"
        restored = b.engine.context.restore(result)
        assert isinstance(restored, ContextEffect)
        assert restored.tokens_per_turn > 5_000
        assert b.engine.context.item_text(result) == f"far: {BIG}"
        assert b.engine.context.pins == {result}


async def test_a_collapsed_span_is_restored_but_not_dropped() -> None:
    b = bench(BIG, "Two.", "Three.")
    async with b.engine:
        await b.run("first")
        await b.run("second")
        before = b.engine.session.view.wire(b.engine.messages)
        first, last = b.engine.messages[0].id, b.engine.messages[1].id
        span = ContextEdit(
            kind="collapse", target=first, through=last, text="It was told.", step="collapse", freed=7_000
        )
        b.engine.session.view.edit([span], b.engine.messages[-1].id)
        collapsed = item(b, "summary", "It was told.")
        assert b.engine.context.drop(collapsed) == pinning.COLLAPSED_SPAN
        assert isinstance(b.engine.context.restore(collapsed), ContextEffect)
        assert b.engine.session.view.wire(b.engine.messages) == before


# ------------------------------------------------------------------------------------------------------------ resumed


async def test_pins_and_drops_survive_a_resume(tmp_path: Path) -> None:
    workplace = SessionContext(tmp_path, Path("/work"), LoopClock(), SequentialIds(), "test")
    store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
    turns: list[Any] = [reply(call("Look", what="far")), "One.", "Two.", "Three."]
    b = bench(*turns, tools=[looking()], store=store)
    async with b.engine:
        await b.run("first")
        await b.run("second")
        b.engine.context.pin(item(b, "prompts", "first"))
        b.engine.context.drop(item(b, "results"))
        pins, dropped = b.engine.context.pins, b.engine.context.dropped_items()
        assert store.path is not None
        loaded = load_session(store.path)
        view = ContextView()
        for after, edit in loaded.edits:
            view.edit([edit_from_dict(edit)], after)
        other = bench("Three.", tools=[looking()], log=tuple(loaded.messages), view=view, pins=set(loaded.pinned))
        async with other.engine:
            assert other.engine.context.pins == pins
            assert other.engine.context.dropped_items() == dropped
            await other.run("third")
        await b.run("third")
        assert other.requests[-1]["messages"] == b.requests[-1]["messages"]
        b.engine.context.unpin(next(iter(pins)))
        assert load_session(store.path).pinned == ()


# --------------------------------------------------------------------------------------------------------- any of it


@given(st.data())
def test_any_drops_pins_and_restores_leave_a_valid_request_with_all_required_content(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    view, pins = ContextView(), set[str]()
    everything = [block_id(message, n) for message in log for n in range(len(message.content))]
    if not everything:
        return
    sizes = view.estimate(log, 0)
    for _step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(everything))
        action = data.draw(st.sampled_from(("drop", "drop", "restore", "pin")))
        pinned = find_pinned(view.messages(log), pins)
        now = state(estimate=view.estimate(log, 0), pinned=pinned)
        if action == "pin":
            if any(name == block_id(m, n) for m in view.messages(log) for n in range(len(m.content))):
                pins.add(name)
            continue
        running = data.draw(st.booleans())
        change = plan_drop(view, log, name, now, running=running) if action == "drop" else None
        change = plan_restore(view, log, name, now) if change is None else change
        if isinstance(change, str):
            continue
        assert change.edits
        view.edit(change.edits, log[-1].id)
        assert find_pinned(view.messages(log), pins) == pinned
        assert refused(view, log) == []
        last = next((m for m in reversed(log) if m.origin in (Origin.PROMPT, Origin.QUEUED)), None)
        assert last is None or last in view.messages(log)
    for name in everything:
        change = plan_restore(view, log, name, state(estimate=0, usable=10**9))
        if not isinstance(change, str):
            view.edit(change.edits, log[-1].id)
    assert view.wire(log) == ContextView().wire(log)
    assert view.estimate(log, 0) == sizes


@given(st.data())
def test_pinned_items_survive_a_compaction_after_any_pins_and_drops(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    texts = [m for m in log if m.origin is Origin.TOOL_RESULTS or m.origin is Origin.REPLY]
    everything = [block_id(m, n) for m in texts for n in range(len(m.content))]

    async def main() -> None:
        b = bench("A summary.", "On.", "A second one.", "On.", log=tuple(log))
        async with b.engine:
            for _step in range(data.draw(st.integers(0, 6))):
                name = data.draw(st.sampled_from(everything)) if everything else ""
                b.engine.context.pin(name) if data.draw(st.booleans()) else b.engine.context.drop(name)
            kept = [b.engine.context.item_text(one) for one in sorted(b.engine.context.pins)]
            count = len(b.engine.session.pins)
            for _time in range(2):
                await collect(b.engine.compact())
                await b.run("go on")
                shown = b.engine.session.view.messages(b.engine.messages)
                said = "\n".join(
                    b.engine.context.item_text(block_id(m, n)) for m in shown for n in range(len(m.content))
                )
                assert all(text.partition("\n[")[0].strip() in said for text in kept if "{" not in text)
                names = {pin_name(m, n) for m in shown for n in range(len(m.content))}
                assert len(names & set(b.engine.session.pins)) == count

    run_virtual(main)


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
    assert dropped.once_tokens == pytest.approx(rewritten, rel=0.2)
    rates = b.engine.session.catalog.get(b.engine.model).price
    assert rates is not None
    anew = rewritten * (rates.cache_write_5m - rates.cache_read) / 1e6
    assert dropped.once_usd == pytest.approx(anew, rel=0.2)
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
        outcomes = {place: plan_drop(view, talk.log, f"m{place}:0", state(), running=False) for place in (1, 3, 5)}
        assert not isinstance(outcomes.pop(1), str)
        assert set(outcomes.values()) == {pinning.UNANSWERED}
        pair = plan_drop(view, talk.log, "m5:1", state(), running=False)
        assert not isinstance(pair, str)
        assert pair.also == "with its result and the thinking that led to it"
    talk.answer()
    talk.prompt("thanks")
    assert not isinstance(plan_drop(view, talk.log, "m5:0", state(), running=False), str)


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
    assert middle.once_tokens > 2 * middle.tokens_per_turn * 0.8
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
    change = plan_drop(view, log, f"{log[6].id}:0", state(), running=False)
    assert not isinstance(change, str)
    assert {edit.target for edit in change.edits} == {f"{log[5].id}:0", f"{log[6].id}:0"}


def _renamed(message: Message, ids: dict[str, str]) -> Message:
    from agentcli.core.messages import message_from_dict, message_to_dict

    text = json.dumps(message_to_dict(message))
    for old, new in ids.items():
        text = text.replace(old, new)
    return message_from_dict(json.loads(text))


SLOW = reply(say("Part one."), pause(5), say("Part two."))
LATER = "takes effect with the next request"


def looked(*later: Any, **rest: Any) -> tuple[Bench, PromptCache]:
    """Two results are there, and the third prompt is answered slowly."""
    turns = [reply(call("Look", what="far")), "One.", reply(call("Look", what="near")), "Two."]
    return cached_bench(*turns, *(later or (SLOW, "Four.", "Five.")), tools=[looking()], **rest)


def result(b: Bench, number: int) -> str:
    return f"{[m for m in b.engine.messages if m.origin is Origin.TOOL_RESULTS][number].id}:0"


async def meddling(b: Bench, prompt: str, when: type[ev.Event], act: Callable[[], Any]) -> tuple[list[ev.Event], Any]:
    """Submit, and do something at the first such event."""
    events: list[ev.Event] = []
    done: list[Any] = []
    async for event in b.engine.submit(prompt):
        events.append(event)
        if isinstance(event, when) and not done:
            done.append(act())
    assert b.refused == []
    return events, done[0]


async def begun(b: Bench) -> None:
    await b.run("first")
    await b.run("second")


@pytest.mark.parametrize("when", [ev.RequestStarted, ev.TextStreamed, ev.UsageReported])
async def test_a_drop_in_flight_is_named_as_the_cache_break_and_counted_in_the_estimate(
    when: type[ev.Event],
) -> None:
    b, cache = looked()
    async with b.engine:
        await begun(b)
        far = result(b, 0)
        events, dropped = await meddling(b, "third", when, lambda: b.engine.context.drop(far))
        assert isinstance(dropped, ContextEffect)
        assert LATER in dropped.text
        assert only(events, ev.PrefixBroken) == []
        estimated = b.engine.context.outlook().tokens
        [broken] = only(await b.run("fourth"), ev.PrefixBroken)
        assert "you dropped the result of" in broken.reason
        assert UNKNOWN not in broken.reason
    assert cache.readings[-1].prompt == pytest.approx(estimated, rel=0.05)
    assert cache.readings[-2].prompt - cache.readings[-1].prompt == pytest.approx(dropped.tokens_per_turn, rel=0.1)


async def test_a_change_is_visible_at_once_and_later_changes_build_on_it() -> None:
    b, _cache = looked()
    async with b.engine:
        await begun(b)
        far, near = result(b, 0), result(b, 1)
        before = b.engine.context.outlook().tokens

        def act() -> list[Any]:
            done: list[Any] = [
                b.engine.context.drop(far),
                b.engine.context.drop(far),
                b.engine.context.pin(far),
                b.engine.context.pin(near),
            ]
            done.append(b.engine.context.drop(near))
            assert far not in [one.id for one in b.engine.context.items()]
            assert far in [one.id for one in b.engine.context.dropped_items()]
            assert b.engine.context.outlook().tokens < before
            return done

        _events, done = await meddling(b, "third", ev.TextStreamed, act)
        assert isinstance(done[0], ContextEffect)
        assert done[1:] == [pinning.DROPPED_ALREADY, pinning.NOT_THERE, None, pinning.PINNED]
        await b.run("fourth")
    assert "far: A line" in json.dumps(b.requests[-2])
    assert "far: A line" not in json.dumps(b.requests[-1])
    assert "near: A line" in json.dumps(b.requests[-1])


@pytest.mark.parametrize("how", ["abort", "leave"])
async def test_an_aborted_request_keeps_the_change_and_the_session_file_records_it(tmp_path: Path, how: str) -> None:
    workplace = SessionContext(tmp_path, Path("/work"), LoopClock(), SequentialIds(), "test")
    store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
    b, _cache = looked(store=store)
    async with b.engine:
        await begun(b)
        stream = b.engine.submit("third")
        async for event in stream:
            if isinstance(event, ev.TextStreamed):
                assert isinstance(b.engine.context.drop(result(b, 0)), ContextEffect)
                if how == "leave":
                    break
                b.engine.abort(AbortReason.USER_CANCEL)
        await stream.aclose()
        assert store.path is not None
        loaded, view = load_session(store.path), ContextView()
        for after, edit in loaded.edits:
            view.edit([edit_from_dict(edit)], after)
        assert view.wire(loaded.messages) == b.engine.session.view.wire(b.engine.messages)
        assert view.estimate(loaded.messages, 0) == b.engine.session.view.estimate(b.engine.messages, 0)
        await b.run("fourth")
    assert "far: A line" not in json.dumps(b.requests[-1])
