"""What the app paints while tools run: everything soon after it happened, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.interactive.drafts import Draft
from agentcli.tui.model import Activity, AnswerItem, EndItem, Operation, PromptItem
from agentcli.tui.session import FRAME_SECONDS, MAX_WAITING, TuiSession
from tests.support.fakes import FakeTool, bench
from tests.support.scripts import call, pause, reply, say
from tests.support.shown import Shown
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

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


def test_a_long_call_is_on_the_screen_soon_after_it_starts() -> None:
    slow = FakeTool("Slow", seconds=5.0)
    desk = played(reply(call("Slow")), "Done.", tools=[slow])
    (started,) = desk.times(ev.ToolStarted)
    assert any(started < at <= started + 2 * FRAME_SECONDS for at in desk.shown.painted)


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
