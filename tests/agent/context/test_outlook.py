"""What the next request will cost: checked against an API with a prompt cache, warm, cold, changed and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentcli.agent.costs.cache_watch import SHORT_TTL, CacheWatch, Front
from agentcli.agent.profile import Profile
from agentcli.context.report import ChangePrice, ExpectedCache, price_of_change
from agentcli.core import events as ev
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.core.usage import CacheLosses, Price, Usage
from agentcli.providers.base import Thinking
from agentcli.providers.catalog import Catalog
from tests.support.cacheserver import PromptCache
from tests.support.curating import BIG, cached_bench, looking
from tests.support.fakes import MODEL, Bench, only
from tests.support.scripts import call, reply

pytestmark = pytest.mark.virtual

SONNET = Catalog().get(MODEL).price
assert SONNET is not None


def big_bench(*more: Any, **rest: Any) -> tuple[Bench, PromptCache]:
    return cached_bench(reply(call("Look", what="a")), "Read it.", *more, tools=[looking(BIG * 2)], **rest)


# ------------------------------------------------------------------------------------------------------- the estimate


async def test_with_a_warm_cache_the_estimate_matches_the_bill() -> None:
    b, cache = big_bench("And?")
    async with b.engine:
        await b.run("go")
        outlook = b.engine.context.outlook()
        await b.run("x")
        assert SONNET is not None
        billed = SONNET.cost(Usage().updated(cache.readings[-1].usage))
        assert outlook.next_cost_usd == pytest.approx(billed, rel=0.15)
        assert not outlook.cold
        assert outlook.cached_tokens == pytest.approx(cache.readings[-1].read, rel=0.02)


async def test_after_a_pause_the_estimate_claims_nothing_cached() -> None:
    b, cache = big_bench("And?")
    async with b.engine:
        await b.run("go")
        warm = b.engine.context.outlook()
        assert b.engine.context.cache_seconds_left() == pytest.approx(SHORT_TTL, abs=1)
        await asyncio.sleep(SHORT_TTL + 1)
        cold = b.engine.context.outlook()
        assert (cold.cold, cold.cached_tokens, b.engine.context.cache_seconds_left()) == (True, 0, None)
        assert warm.next_cost_usd is not None
        assert cold.next_cost_usd is not None
        assert cold.next_cost_usd > 5 * warm.next_cost_usd
        assert {item.cached for item in b.engine.context.items()} == {False}
        await b.run("x")
        assert SONNET is not None
        billed = SONNET.cost(Usage().updated(cache.readings[-1].usage))
        assert cold.next_cost_usd == pytest.approx(billed, rel=0.15)
        assert not b.engine.context.outlook().cold


async def test_a_changed_thinking_setting_keeps_system_prompt_and_tools_cached() -> None:
    b, cache = big_bench("And?", profile=Profile(MODEL, MODEL, system=("Be good. " * 2_000,)))
    async with b.engine:
        await b.run("go")
        b.engine.set_thinking(Thinking("disabled"))
        outlook = b.engine.context.outlook()
        await b.run("x")
        assert outlook.cached_tokens == pytest.approx(cache.readings[-1].read, rel=0.3), "an estimate, not counted"


def test_after_a_compaction_only_the_head_is_expected_to_be_cached() -> None:
    watch = CacheWatch()
    said = Message("assistant", (TextBlock("Hi."),), "m", Origin.REPLY, usage=Usage(cache_write_5m_tokens=50_000))
    watch.resume([said], Front("m"), 0.0)
    assert watch.expected(Front("m"), 10.0, head=3_000) == 50_000
    watch.note(ev.ContextCompacted(trigger="manual", tokens_before=50_000, tokens_after=4_000))
    assert watch.expected(Front("m"), 10.0, head=3_000) == 3_000
    watch.note(ev.ContextEdited(edits=[{"kind": "undo_compaction"}], step="compact", text="undone"))
    assert watch.expected(Front("m"), 10.0, head=3_000) == 50_000


# ---------------------------------------------------------------------------------------------------------- a resume


def resumed(usage: Sequence[Usage], at: float = 0.0) -> CacheWatch:
    watch = CacheWatch()
    replies = [
        Message("assistant", (TextBlock("x"),), str(place), Origin.REPLY, usage=one) for place, one in enumerate(usage)
    ]
    watch.resume(replies, Front("model-a", "high"), at)
    return watch


def test_a_resumed_session_is_as_warm_as_the_time_since_its_last_reply() -> None:
    watch = resumed([Usage(cache_read_input_tokens=8_000, cache_write_5m_tokens=2_000)], at=-200.0)
    assert not watch.cold(0.0)
    assert watch.seconds_left(0.0) == 100.0
    assert watch.expected(Front("model-a", "high"), 0.0, 500) == 10_000
    assert watch.expected(Front("model-a-20260101", "high"), 0.0, 500) == 10_000, "a snapshot of the same model"
    assert watch.expected(Front("model-b", "high"), 0.0, 500) == 0
    assert watch.expected(Front("model-a", "low"), 0.0, 500) == 0
    assert watch.cold(101.0)
    assert watch.expected(Front("model-a", "high"), 101.0, 500) == 0


# ------------------------------------------------------------------------------------------------ the price of a change


def test_a_model_change_costs_the_lost_cache_at_the_new_models_price() -> None:
    price = Price.of(4.0, 20.0)
    change = price_of_change(ExpectedCache(100_000), ExpectedCache(0), price)
    assert (change.tokens, change.usd) == (100_000, pytest.approx(0.5))
    assert change.text == "re-bills 100k tokens, about $0.50, once"
    assert change.needs_confirmation(0.1)
    long_lived = price_of_change(ExpectedCache(100_000, long_lived=True), ExpectedCache(0), price)
    assert long_lived.usd == pytest.approx(0.8), "what is kept for an hour costs more"


def test_a_change_that_costs_almost_nothing_needs_no_confirmation() -> None:
    price = Price.of(4.0, 20.0)
    assert price_of_change(ExpectedCache(0), ExpectedCache(0), price) == ChangePrice(0, 0.0)
    assert price_of_change(ExpectedCache(0, cold=True), ExpectedCache(0, cold=True), price).text == (
        "the cache is cold: nothing is re-billed"
    )
    small = price_of_change(ExpectedCache(900), ExpectedCache(0), price)
    assert (small.needs_confirmation(0.1), small.text) == (False, "re-bills 900 tokens, about $0.0045, once")
    assert not price_of_change(ExpectedCache(0), ExpectedCache(90_000), price).needs_confirmation(0.1), (
        "a change back to what is cached"
    )


def test_a_change_with_an_unknown_price_is_confirmed_and_not_shown_as_free() -> None:
    change = price_of_change(ExpectedCache(100_000), ExpectedCache(0), None)
    assert change.needs_confirmation(0.1)
    assert change.text == "re-bills 100k tokens once; the price is unknown"


# -------------------------------------------------------------------------------------------------------- what was lost


async def test_breaks_and_expiries_are_counted_with_their_cost() -> None:
    b, cache = big_bench("One.", "Two.", "Three.")
    async with b.engine:
        await b.run("go")
        assert b.engine.costs.cache_losses == CacheLosses()
        b.engine.set_effort("low")
        events = await b.run("x")
        [broken] = only(events, ev.PrefixBroken)
        losses = b.engine.costs.cache_losses
        assert (losses.breaks, losses.expiries, losses.tokens) == (1, 0, broken.rebilled_tokens)
        await asyncio.sleep(SHORT_TTL + 1)
        await b.run("y")
        losses = b.engine.costs.cache_losses
        assert (losses.breaks, losses.expiries) == (1, 1)
        assert SONNET is not None
        more = (SONNET.cache_write_5m - SONNET.cache_read) / 1_000_000
        assert b.engine.costs.cache_losses_usd == pytest.approx(losses.tokens * more)
        assert len(cache.readings) == 4


# ----------------------------------------------------------------------------------------------- the map and the sizes
