"""What the app paints while tools run: nothing before the next request, all of it soon after, and the end always."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.interactive.drafts.draft import Draft
from agentcli.tui.model import Activity, AnswerItem, EndItem, Operation, PromptItem, ToolItem
from agentcli.tui.session import MAX_SECONDS, MAX_WAITING, SETTLE_SECONDS, TuiSession
from tests.support.fakes import FakeTool, bench
from tests.support.scripts import call, event, pause, reply, say, think
from tests.support.shown import Shown
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

CALLS = 20
MODEL_SECONDS = 0.06
TOOL_SECONDS = 0.01


class Watched(Shown):
    """What is shown, and the times of frames, of events and of what is shown outside of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[float] = []
        self.applied: list[float] = []

    def paint(self, operations: Iterable[Operation], activity: Activity) -> None:
        self.painted.append(asyncio.get_running_loop().time())
        super().paint(operations, activity)

    def show_activity(self, activity: Activity) -> None:
        self.applied.append(asyncio.get_running_loop().time())
        super().show_activity(activity)


class Desk:
    """A session whose events are timed."""

    def __init__(self, *replies: Any, tools: list[FakeTool] | None = None) -> None:
        self.bench = bench(*replies, tools=tools or [])
        self.shown = Watched()
        self.session = TuiSession(self.shown, now=lambda: asyncio.get_running_loop().time())
        self.view = self.session._view
        self.events: list[tuple[float, ev.Event]] = []
        self._show = self.view.show
        self.view.show = self._timed  # type: ignore[method-assign]

    def _timed(self, event: ev.Event) -> None:
        self.events.append((asyncio.get_running_loop().time(), event))
        self._show(event)

    def send(self) -> None:
        self.session.open(self.bench.engine)
        self.session.send(Draft("go"))

    async def run(self) -> None:
        self.send()
        assert self.session.submission is not None
        await self.session.submission
        await asyncio.sleep(1)

    def times(self, kind: type[ev.Event]) -> list[float]:
        return [at for at, event in self.events if isinstance(event, kind)]


def played(*replies: Any, tools: list[FakeTool] | None = None) -> Desk:
    async def main() -> Desk:
        desk = Desk(*replies, tools=tools)
        await desk.run()
        await desk.session.close()
        return desk

    return run_virtual(main)


def test_nothing_is_painted_between_the_end_of_a_reply_and_the_next_request() -> None:
    look = FakeTool("Look", seconds=TOOL_SECONDS)
    calls = [reply(pause(MODEL_SECONDS), call("Look", what=str(number))) for number in range(CALLS)]
    desk = played(*calls, "Done.", tools=[look])
    ended, asked = desk.times(ev.BlockFinished)[:CALLS], desk.times(ev.RequestStarted)[1:]
    assert len(ended) == len(asked) == CALLS
    for end, request in zip(ended, asked, strict=True):
        assert end < request
        assert not [at for at in (*desk.shown.painted, *desk.shown.applied) if end <= at < request]
    assert CALLS <= len(desk.shown.painted) <= CALLS * 2 + 2, "but while the model takes its time"
    assert [item.status for item in desk.shown.of(ToolItem)] == ["done"] * CALLS
    assert desk.shown.of(EndItem), "and the end is shown"


def test_a_long_call_is_on_the_screen_soon_after_it_starts() -> None:
    slow = FakeTool("Slow", seconds=5.0)
    desk = played(reply(call("Slow")), "Done.", tools=[slow])
    (started,) = desk.times(ev.ToolStarted)
    assert any(started < at <= started + MAX_SECONDS for at in desk.shown.painted)


def test_a_reply_that_goes_on_after_a_block_is_painted_without_delay() -> None:
    goes_on = [
        event({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        event({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Well"}}),
        pause(1),
        event({"type": "content_block_stop", "index": 1}),
    ]
    desk = played(reply(pause(1), think("hm"), *goes_on))
    began = desk.times(ev.TextStreamed)[0]
    assert any(began <= at <= began + 2 * SETTLE_SECONDS for at in desk.shown.painted)


def test_requests_without_a_pause_are_painted_all_the_same_but_not_one_by_one() -> None:
    look = FakeTool("Look", seconds=0.002)
    calls = [reply(call("Look", what=str(number))) for number in range(CALLS * 2)]
    desk = played(*calls, "Done.", tools=[look])
    began, over = desk.times(ev.RequestStarted)[0], desk.times(ev.Result)[0]
    painted = [at for at in desk.shown.painted if began <= at <= over]
    assert (over - began) / MAX_SECONDS - 2 <= len(painted) <= (over - began) * 31 + 1
    assert len(desk.shown.of(ToolItem)) == CALLS * 2


async def test_what_came_before_an_interruption_is_shown_before_it() -> None:
    desk = Desk(reply(say("Hello, this goes on", chunk=2), pause(60), "and on"))
    desk.send()
    while not desk.times(ev.TextStreamed):
        await asyncio.sleep(0)
    assert not desk.shown.of(AnswerItem), "its frame is still to come"
    desk.session.interrupt()
    assert [type(item) for item in desk.shown.items[-2:]] == [AnswerItem, EndItem]
    await desk.session.close()


def test_a_queued_prompt_is_in_the_transcript_as_soon_as_it_leaves_the_queue() -> None:
    look = FakeTool("Look", seconds=TOOL_SECONDS)
    prompts: list[list[str]] = []

    async def main() -> None:
        desk = Desk(reply(call("Look")), "Done.", tools=[look])
        show_queued = desk.shown.show_queued

        def noted(texts: list[str]) -> None:
            prompts.append([*(item.text for item in desk.shown.of(PromptItem)), *texts])
            show_queued(texts)

        desk.shown.show_queued = noted  # type: ignore[method-assign]
        desk.send()
        desk.session.send(Draft("and this"))
        assert desk.session.submission is not None
        await desk.session.submission
        await desk.session.close()

    run_virtual(main)
    assert prompts == [["go", "and this"], ["go", "and this"]]


async def test_a_flood_of_events_does_not_wait_for_one_frame() -> None:
    desk = Desk()
    for number in range(MAX_WAITING + 1):
        desk.view.show(ev.NoticeRaised(text=str(number)))
    assert len(desk.shown.items) == MAX_WAITING
    await asyncio.sleep(1)
    assert len(desk.shown.items) == MAX_WAITING + 1
    assert len(desk.shown.painted) == 1


def test_an_event_that_cannot_be_shown_does_not_hide_the_others(caplog: Any) -> None:
    async def main() -> None:
        desk = Desk()
        desk.view.show(ev.NoticeRaised(text=None))  # type: ignore[arg-type]
        desk.view.show(ev.NoticeRaised(text="the next one"))
        await asyncio.sleep(1)
        assert desk.shown.texts() == ["notice: the next one"]

    run_virtual(main)
    assert "an event cannot be shown: NoticeRaised" in caplog.text
