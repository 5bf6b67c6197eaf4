"""Context changes by the user during a request apply from the next request on, with a known reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.costs.cache_watch import UNKNOWN
from agentcli.context import user_edits as pinning
from agentcli.context.edits import edit_from_dict
from agentcli.context.user_edits import ContextEffect
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Origin
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.support.cacheserver import PromptCache
from tests.support.curating import cached_bench, looking
from tests.support.fakes import Bench, LoopClock, only
from tests.support.scripts import call, pause, reply, say

pytestmark = pytest.mark.virtual

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
