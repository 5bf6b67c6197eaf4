"""Stopping at every point: whatever the moment, the stream ends properly and leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from agentcli.core.abort import AbortController
from agentcli.providers.base import Failed, FailureKind, Finished, ModelEvent, Request
from tests.support.scripts import call, event, fails, fault, pause, provider_for, reply, say
from tests.support.tables import each_row
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

REQUEST = Request("claude-opus-5-5", ({"role": "user", "content": "hi"},), fallback_models=("haiku",))
STORY = (
    fails(529),
    reply("half", fault("drop")),
    fails(400, "thinking: Extra inputs are not permitted"),
    reply(pause(40), say("whole", chunk=2), event({"type": "ping"}), call("Read", file_path="x")),
)


def _whole() -> int:
    async def main() -> int:
        return len([item async for item in provider_for(*STORY).stream(REQUEST, AbortController().signal)])

    return run_virtual(main)


@each_row("turns", range(60))
def test_an_abort_after_any_number_of_loop_turns_ends_the_stream_once(turns: int) -> None:
    async def main() -> list[ModelEvent]:
        controller = AbortController()

        async def abort_later() -> None:
            for _turn in range(turns):
                await asyncio.sleep(0)
            controller.abort()

        later = asyncio.create_task(abort_later())
        seen = [item async for item in provider_for(*STORY).stream(REQUEST, controller.signal)]
        await later
        return seen

    events = run_virtual(main)
    ends = [item for item in events if isinstance(item, Finished | Failed)]
    assert ends == [events[-1]]
    if isinstance(events[-1], Failed):
        assert events[-1].failure.kind is FailureKind.ABORTED


def test_closing_after_any_event_leaves_nothing_behind() -> None:
    async def main(stop: int) -> None:
        async with aclosing(provider_for(*STORY).stream(REQUEST, AbortController().signal)) as events:
            for _number in range(stop):
                await anext(events)

    for stop in range(_whole() + 1):
        run_virtual(main(stop))


@each_row("turns", range(0, 60, 3))
async def test_cancelling_the_consumer_at_any_point_leaves_nothing_behind(turns: int) -> None:
    async def consume() -> None:
        async with aclosing(provider_for(*STORY).stream(REQUEST, AbortController().signal)) as events:
            async for _item in events:
                await asyncio.sleep(0)

    task = asyncio.create_task(consume())
    for _turn in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.done()
