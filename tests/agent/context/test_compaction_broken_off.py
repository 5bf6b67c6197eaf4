"""A compaction aborted at any step of the event loop is either complete or has changed nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from agentcli.agent.ports import Hooks
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.permission import Answer
from tests.context.logs import Talk
from tests.support.compacting import LONG, tool
from tests.support.examples import points
from tests.support.fakes import Bench, bench, only
from tests.support.scripts import fails, reply, say
from tests.support.virtual import VirtualLoop, run_virtual

# ------------------------------------------------------------------------------------------------------- breaking off


class Slow(Hooks):
    async def before_compact(self, trigger: str, focus: str) -> str:
        await asyncio.sleep(1)
        return focus


def slow_bench(**rest: Any) -> Bench:
    """After two prompts, before a compaction that takes its time."""
    talk = Talk()
    talk.prompt("tell")
    talk.answer(LONG)
    talk.prompt("look")
    talk.call("Look", {"what": "map"}, "map was seen. " * 20)
    talk.answer("Here.")
    summary = reply(say("A "), {"delay": 1}, say("summary."))
    parts = {"tools": [tool()], "hooks": Slow(), "log": tuple(talk.log)}
    return bench(fails(529), summary, "On.", **parts, **rest)


async def answering(events: AsyncGenerator[ev.Event, None], b: Bench) -> list[ev.Event]:
    seen = []
    async with aclosing(events) as stream:
        async for event in stream:
            seen.append(event)
            if isinstance(event, ev.CompactionProposed):
                asyncio.get_running_loop().call_later(2, b.engine.answer, event.request_id, Answer("allow"))
    return seen


def loop() -> VirtualLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualLoop)
    return running


def steps_of_a_whole_run(review: bool) -> int:
    async def main() -> int:
        b = slow_bench(interactive=True)
        async with b.engine:
            begun = loop().steps
            assert only(await answering(b.engine.compact(review=review), b), ev.ContextCompacted)
            return loop().steps - begun

    return run_virtual(main)


@pytest.mark.parametrize("review", [False, True])
@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_an_abort_at_any_point_leaves_the_compaction_complete_or_undone(review: bool, how: str) -> None:
    async def main(point: int) -> bool:
        b = slow_bench(interactive=True)
        view = b.engine.session.view
        async with b.engine:
            log, wire = b.engine.messages, view.wire(b.engine.messages)
            task = asyncio.ensure_future(answering(b.engine.compact(review=review), b))
            stop = task.cancel if how == "cancel" else lambda: b.engine.abort(AbortReason.USER_CANCEL)
            loop().act_at[loop().steps + 2 + point] = stop  # not before it has begun
            await asyncio.wait([task])
            changed = b.engine.messages != log
            if how == "abort":
                events = task.result()
                assert bool(only(events, ev.ContextCompacted)) == changed
                assert len(only(events, ev.CompactionFailed)) == (not changed)
            if not changed:
                assert view.wire(b.engine.messages) == wire
            assert not b.engine.session.questions._open
            assert not b.engine.running
            await b.run("go")
            assert b.refused == []
            return changed

    total = steps_of_a_whole_run(review)
    outcomes = [run_virtual(main(point)) for point in points(total)]
    assert outcomes == sorted(outcomes), "once it has happened it stays"
    assert set(outcomes) == {False, True}


def test_a_consumer_that_leaves_during_a_compaction_loses_nothing() -> None:
    async def main(after: int) -> None:
        b = slow_bench()
        async with b.engine:
            view = b.engine.session.view
            before = view.wire(b.engine.messages)
            stream = b.engine.compact()
            appended = 0
            async for event in stream:
                appended += isinstance(event, ev.MessageAppended)
                if appended == after:
                    break
            await stream.aclose()
            whole = view.edits.boundary(b.engine.messages) is not None
            assert whole == (after == 6)
            if not whole:
                assert view.wire(b.engine.messages) == before
            await b.run("go")
            assert b.refused == []

    for after in range(1, 7):
        run_virtual(main(after))
