"""The space for input and output in a context window that becomes known or changes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agentcli.agent.profile import Profile
from agentcli.context.old_results import Snip
from agentcli.context.steps import Pipeline
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.providers.catalog import Catalog
from agentcli.tools.base import Output
from tests.support.curating import looking
from tests.support.fakes import FakeTool, bench, only, result_of
from tests.support.scripts import call, fails, reply

pytestmark = pytest.mark.virtual

MODEL = "local/tiny-7b"


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
