"""The space for input and output in a context window that becomes known or changes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agentcli.agent.profile import Profile, Tuning
from agentcli.context.old_results import Snip
from agentcli.context.steps import Pipeline
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.providers.catalog import UNKNOWN_WINDOW, Catalog
from agentcli.tools.base import Output
from tests.support.curating import looking
from tests.support.fakes import FakeTool, bench, only, result_of
from tests.support.scripts import call, fails, reply

pytestmark = pytest.mark.virtual

MODEL = "local/tiny-7b"
NO_COMPACTION = Tuning(auto_compact=False)


async def test_a_newly_known_context_window_applies_at_once_even_to_a_running_submission() -> None:
    catalog = Catalog()
    b = bench(profile=Profile(model=MODEL, small_model="x"), catalog=catalog)
    async with b.engine:
        session = b.engine.session
        assert (session.context_limits.window, session.context_limits.reserved) == (UNKNOWN_WINDOW, 8_192)
        catalog.note_listed(MODEL, 8_192)
        assert (session.context_limits.window, session.context_limits.usable) == (8_192, 4_096)


async def test_a_smaller_model_that_is_chosen_in_the_middle_of_a_submission_has_its_own_limits() -> None:
    """Otherwise the next request would be too large for it."""
    full = {"input_tokens": 300_000, "output_tokens": 10}

    catalog = Catalog()
    catalog.note_listed(MODEL, 100_000)
    first = reply(call("Look", what="far"), usage=full)
    b = bench(first, "A summary.", "Done.", tools=[looking()], catalog=catalog)
    events: list[ev.Event] = []
    async with b.engine:
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.MessageAppended) and event.message.tool_uses:
                b.engine.set_model(MODEL)
        session = b.engine.session
        assert (session.context_limits.window, session.settings.price) == (100_000, None)
        assert session.limits.raised_output_cap == min(64_000, catalog.get(MODEL).max_output)
    asked = [(event.model, event.purpose) for event in only(events, ev.RequestStarted)]
    assert asked == [("claude-sonnet-5-5", "turn"), (MODEL, "compact"), (MODEL, "turn")]


async def test_a_raised_output_cap_leaves_room_for_the_input() -> None:
    catalog = Catalog()
    catalog.note_listed(MODEL, 60_000, 50_000)
    first = reply(call("Look", what="far"), usage={"input_tokens": 28_000, "output_tokens": 10})
    cut = [reply(f"Part {n}. ", stop_reason="max_tokens") for n in range(2)]
    profile = Profile(model=MODEL, small_model="x")
    b = bench(first, *cut, "The end.", tools=[looking()], catalog=catalog, profile=profile)
    async with b.engine:
        events = await b.run()
    caps = [body["max_tokens"] for body in b.requests]
    assert caps[:2] == [8_192, 8_192]
    assert 20_000 < caps[2] < 60_000 - 28_000, "the first cut reply is asked for again with all the room there is"
    assert caps[3] <= caps[2]
    cap = next(event.data["cap"] for event in only(events, ev.LoopContinued) if "cap" in event.data)
    assert cap == caps[2]
    assert result_of(events).text == "Part 1. The end."


async def test_without_room_for_more_output_a_cut_reply_is_kept_and_continued() -> None:
    catalog = Catalog()
    catalog.note_listed(MODEL, 60_000, 50_000)
    first = reply(call("Look", what="far"), usage={"input_tokens": 44_000, "output_tokens": 10})
    profile = Profile(model=MODEL, small_model="x", output_cap=14_000)
    cut = reply("Part one, ", stop_reason="max_tokens")
    b = bench(first, cut, "part two.", tools=[looking()], catalog=catalog, profile=profile, tuning=NO_COMPACTION)
    async with b.engine:
        events = await b.run()
    assert [event.transition for event in only(events, ev.LoopContinued)] == [
        "next_turn",
        "max_output_tokens_recovery",
    ]
    assert result_of(events).text == "Part one, part two."


async def test_a_request_whose_output_does_not_fit_is_sent_again_with_less_and_not_compacted() -> None:
    said = (
        "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again"
    )

    b = bench("Earlier. " * 90, fails(400, said), "Fits.", "Next.")
    async with b.engine:
        await b.run("one")
        events = await b.run("two")
        assert result_of(events).text == "Fits."
        await b.run("three")
    assert not only(events, ev.CompactionStarted)
    assert [dropped.feature for dropped in only(events, ev.FeatureDropped)] == ["max_tokens"]
    assert [body["max_tokens"] for body in b.requests] == [8_192, 8_192, 5_000, 8_192]


async def test_a_server_that_reports_no_cache_does_not_read_the_conversation_again_for_a_small_saving() -> None:
    """A local server reads only what differs from the request before: a change far up costs minutes there."""

    looks = [reply(call("Look", what=what), usage={"input_tokens": 9_000, "output_tokens": 10}) for what in "abcad"]
    look = FakeTool(output=lambda given: Output(str(given["what"]) * (1_000 if given["what"] == "a" else 30_000)))
    profile = Profile(model=MODEL, small_model="x")
    b = bench(*looks, "Done.", tools=[look], profile=profile, pipeline=Pipeline([Snip()]))
    async with b.engine:
        await b.run()
    sent = [_without_marks(body["messages"]) for body in b.requests]
    assert len(sent) == 6
    for shorter, longer in pairwise(sent):
        assert longer[: len(shorter)] == shorter, "the request before begins this one"


def _without_marks(messages: list[Json]) -> list[Json]:
    blocks = ([{**block, "cache_control": None} for block in message["content"]] for message in messages)
    return [{**message, "content": content} for message, content in zip(messages, blocks, strict=True)]
