"""The app's session: the session driver, and a view that shows the driver's reports as operations on the transcript.

Events of a submission are queued when they arrive and shown with the next frame, so that the agent loop never waits for
painting. All other reports are shown at once, after the events before them. No Textual here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.interactive.driver import SessionDriver
from agentcli.interactive.submission import is_prompt
from agentcli.interactive.view import Question, Sent, View
from agentcli.tui.model import Above, Activity, Add, Clear, Item, Operation, Remove
from agentcli.tui.presenter import Presenter
from agentcli.tui.progress import active_todo
from agentcli.tui.status.data import FactsFeed

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.drafts import Draft
    from agentcli.tui.chat import ChatScreen

FRAME_SECONDS = 1 / 30
SETTLE_SECONDS = 0.004
"""Minimum delay from a change to its frame: events come in groups, and a request is sent just after its event."""


class FrameClock:
    """Calls `paint` once for all changes since the last frame."""

    def __init__(self, paint: Callable[[], None]) -> None:
        self._paint = paint
        self._painted_at = -FRAME_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        """Paint a change with the next frame."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time() + SETTLE_SECONDS, self._painted_at + FRAME_SECONDS)
            self._timer = loop.call_at(due, self._frame)

    def stop(self) -> None:
        """Cancel the pending frame. The next change schedules a new one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _frame(self) -> None:
        self.stop()
        self._painted_at = asyncio.get_running_loop().time()
        self._paint()


MAX_WAITING = 200
"""Maximum number of events queued for a frame; then they are shown without one, so that no frame takes long."""


class TranscriptView(View):
    def __init__(self, screen: ChatScreen, now: Callable[[], float], read_branch: Callable[[Path], str] | None) -> None:
        self._screen = screen
        self._now = now
        self._engine: Engine | None = None
        self._previewed: list[str] = []
        self._begin_presenting()
        self._frames = FrameClock(self._paint)
        self._waiting: list[tuple[ev.Event, float]] = []
        """Events that are not shown yet, with their arrival times."""
        self.facts = FactsFeed(screen.show_facts, read_branch, self._frames.request)
        self.past: Sequence[Item] | None = None

    def _begin_presenting(self) -> None:
        self.presenter = Presenter(self._title_of)
        self._shell_presenter = Presenter(self._title_of, "shell-")
        """Presents shell lines that run during a submission: they may outlive it, also after an interruption."""

    def _title_of(self, name: str, input: Json) -> str:
        return self._engine.title_of(name, input) if self._engine is not None else ""

    def show_queued(self, texts: list[str]) -> None:
        self.catch_up()  # a prompt picked up by the loop must be in the transcript before it leaves the queue
        self._screen.show_queued(texts)

    def give_back(self, drafts: list[Draft]) -> None:
        self._screen.give_back(drafts)

    def ask(self, event: Question, waiting: int) -> None:
        self.catch_up()
        self._screen.ask(event, waiting)

    def show_waiting(self, count: int) -> None:
        self._screen.show_waiting(count)

    def withdraw(self, request_id: str) -> None:
        self._screen.withdraw(request_id)

    def catch_up(self) -> None:
        """Show all events that are queued for a frame."""
        if self._waiting:
            self._apply(self._operations())

    def _paint(self) -> None:
        operations = self._operations()
        self.facts.refresh_late()
        self._screen.paint(operations, self._activity)

    def _operations(self) -> list[Operation]:
        """Turn the queued events into operations, and update the status line for them."""
        waiting, self._waiting = self._waiting, []
        operations: list[Operation] = []
        changes_status = changes_branch = False
        for event, at in waiting:
            try:
                operations += self.presenter.show(event, at)
                if isinstance(event, ev.CommandChangedFiles):
                    operations += self._shell_presenter.show(event, at)
            except Exception:
                logging.getLogger("agentcli").exception("an event cannot be shown: %s", type(event).__name__)
            # Of a sub-agent, only its usage changes the status.
            changes_status |= event.policy.changes_status and (
                isinstance(event, ev.UsageReported) or not ev.is_of_subagent(event)
            )
            changes_branch |= isinstance(event, ev.ToolFinished | ev.DirectoryChanged | ev.Result)
        self._show_agents()
        if changes_status:
            self.facts.refresh()
        if changes_branch:
            self.facts.look_at_branch()
        return operations

    def _apply(self, operations: Sequence[Operation]) -> None:
        if operations:
            self._screen.apply(operations)
        self._screen.show_activity(self._activity)

    @property
    def _activity(self) -> Activity:
        activity = self.presenter.activity
        if not activity.phase or self._engine is None:
            return activity
        return replace(activity, todo=active_todo(self._engine.session.todos))

    def preview(self, items: Sequence[Item]) -> None:
        """Show the end of the conversation that is about to open."""
        self._previewed = [item.id for item in items]
        self._screen.apply([Above(tuple(items))])

    def show_opened(self, engine: Engine) -> None:
        from agentcli.tui.resume import replay

        self.catch_up()
        self._engine = engine
        past, self.past = self.past, None
        if past is None:
            past = replay(engine.take_history(), engine.title_of)
        if past:
            self._screen.apply([*map(Remove, self._previewed), Above(tuple(past))])
            self._previewed = []
        self.facts.follow(engine)

    def clear(self) -> None:
        self.catch_up()
        self._begin_presenting()
        self._show_agents()
        self._previewed = []
        self._screen.apply([Clear()])

    def show_sent(self, draft: Draft) -> str:
        self.catch_up()
        item = self.presenter.sent(draft.text, self._now(), draft.images, not is_prompt(draft, self._engine))
        self._apply([Add(item)])
        return item.id

    def remove_sent(self, sent: Sequence[Sent]) -> None:
        self.catch_up()
        self._apply([Remove(one.id) for one in sent])
        self.presenter.forget_sent(sum(is_prompt(one.draft, self._engine) for one in sent))

    def show_started(self) -> None:
        self.catch_up()
        self.presenter.begin(self._now())
        self._apply([])

    def show(self, event: ev.Event) -> None:
        self._waiting.append((event, self._now()))
        if isinstance(event, ev.Result):
            self.catch_up()
            self._screen.finished(event)
        elif len(self._waiting) >= MAX_WAITING:
            self.catch_up()
        self._frames.request()

    def show_concurrent(self, event: ev.Event) -> None:
        self.catch_up()
        self._apply(self._shell_presenter.show(event, self._now()))

    def note(self, text: str, level: str = "info") -> None:
        self.catch_up()
        self._apply(self.presenter.note(text, level))

    def show_interrupted(self, steering: bool) -> None:
        self.catch_up()
        self._apply(self.presenter.interrupted(self._now(), steering))
        self._show_agents()

    def show_settled(self) -> None:
        self.catch_up()
        self._apply(self.presenter.settled(self._now()))
        self._show_agents()

    def _show_agents(self) -> None:
        """Update the number of running agents in the status line."""
        if self.facts.agents != self.presenter.activity.agents:
            self.facts.agents = self.presenter.activity.agents
            self.facts.refresh()

    def apply_settings(self) -> None:
        self._screen.apply_settings()

    def refresh_commands(self) -> None:
        self._screen.refresh_commands()

    def refresh_status(self) -> None:
        self.facts.refresh()

    def stop_frames(self) -> None:
        """Show the queued events; paint nothing more until the next event."""
        self.catch_up()
        self._frames.stop()


class TuiSession(SessionDriver):
    def __init__(
        self,
        screen: ChatScreen,
        now: Callable[[], float] = time.monotonic,
        read_branch: Callable[[Path], str] | None = None,
    ) -> None:
        self._transcript = TranscriptView(screen, now, read_branch)
        super().__init__(self._transcript, wakes=True)

    @property
    def presenter(self) -> Presenter:
        """The presenter, after all events so far."""
        self.catch_up()
        return self._transcript.presenter

    def catch_up(self) -> None:
        """Put all events so far into the transcript, including those queued for a frame."""
        self._transcript.catch_up()

    def preview(self, items: Sequence[Item]) -> None:
        """Show the end of the conversation that is about to open."""
        self._transcript.preview(items)

    def refresh_facts(self) -> None:
        self._transcript.refresh_status()

    def open(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        self._transcript.past = past if past is not None else self._transcript.past
        super().open(engine)

    async def replace(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        self._transcript.past = past
        await super().replace(engine)

    async def close(self, reason: str = "exit") -> None:
        await self._transcript.facts.aclose()
        await super().close(reason)
        self._transcript.stop_frames()
