"""Pins: they survive everything; and after any pins, drops and restores every request stays a valid one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.context import user_edits as pinning
from agentcli.context.compact import pin_name, pinned_now
from agentcli.context.edits import ContextEdit, block_id, edit_from_dict
from agentcli.context.steps import ContextState, Pipeline, StepPlan
from agentcli.context.user_edits import ContextEffect, planned_drop, planned_restore
from agentcli.context.view import ContextView
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.context.logs import refused, talks
from tests.support.compacting import LONG
from tests.support.curating import BIG, item, looking, state
from tests.support.fakes import Bench, LoopClock, bench, collect
from tests.support.scripts import call, reply, think
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


class ClearsAll:
    """A step that would clear every result there is."""

    name = "microcompact"

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        targets = [block_id(m, n) for m in shown for n in range(len(m.tool_results))]
        edits = [
            ContextEdit(kind="replace", target=one, text="[cleared]", freed=9) for one in targets if state.is_free(one)
        ]
        return StepPlan(tuple(edits), "cleared all", must=True) if edits else None


async def test_no_step_changes_pinned_content() -> None:
    both = reply(call("Look", what="far"), call("Look", what="near"))
    pipeline = Pipeline([ClearsAll()])
    off = Pipeline([])
    for steps, cleared in ((pipeline, True), (off, False)):
        b = bench(both, "One.", "Two.", tools=[looking("seen")], pipeline=off)
        async with b.engine:
            await b.run("first")
            _far, near = (one.id for one in b.engine.context.items() if one.category == "results")
            b.engine.context.pin(near)
            b.engine.session.pipeline = steps
            await b.run("second")
        said = json.dumps(b.requests[-1])
        assert "near: seen" in said
        assert ("far: seen" not in said) == cleared


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
        pinned = pinned_now(view.messages(log), pins)
        now = state(estimate=view.estimate(log, 0), pinned=pinned)
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
        change = planned_restore(view, log, name, state(estimate=0, usable=10**9))
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


async def test_a_review_needs_an_interactive_session() -> None:
    for interactive, looks in ((True, True), (False, False)):
        b = bench("One.", interactive=interactive)
        async with b.engine:
            assert b.engine.previews_compaction is looks
