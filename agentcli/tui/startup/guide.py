"""Runs the guided tour in the app: puts its next step into the prompt whenever the session is idle, or plays all steps
with real keys for a recording. The tour itself decides what the steps are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import events

from agentcli.tui.screens.choices import PAUSE
from agentcli.tui.screens.dialog import Dialog

if TYPE_CHECKING:
    from agentcli.demo.tour import Tour, TourStop
    from agentcli.tui.app import AgentApp

LOOK_SECONDS = 0.05
READING_SECONDS = 1.6
"""How long a question or a note is shown before it is answered, if the tour plays automatically."""
KEY_SECONDS = 0.045
MAX_STEPS = 40


class Guide:
    """Leads through one tour."""

    def __init__(self, app: AgentApp, tour: Tour, speed: float = 0.0) -> None:
        """`speed`: how fast to play the tour automatically; 0: the user presses the keys."""
        self._app = app
        self._tour = tour
        self._speed = speed
        self._something_sent = asyncio.Event()
        self._noted_step: TourStop | None = None
        app.chat.tell_sent = self._sent
        # Before the first frame: keys typed earlier are replayed right after it.
        self._step = self._offer()

    def _sent(self, text: str) -> None:
        self._tour.sent(text)
        self._something_sent.set()

    def _offer(self) -> TourStop:
        chat = self._app.chat
        engine = chat.session.engine
        if engine is not None:
            self._tour.look(engine)
        step = self._tour.next()
        if step.note and step is not self._noted_step:
            chat.apply(chat.session.presenter.note(step.note))
        self._noted_step = step
        self._something_sent.clear()
        chat.prompt.suggest(step.line)
        return step

    async def run(self) -> None:
        for _step in range(MAX_STEPS if self._speed else 1_000_000):
            if self._speed:
                await self._app.opener.engine_ready.wait()
                await self._play(self._step)
            else:
                await self._something_sent.wait()
            await self._calm(self._step)
            self._step = self._offer()
        self._app.leave()

    @property
    def _busy(self) -> bool:
        session = self._app.chat.session
        return session.busy or session.engine is None or self._app.screen is not self._app.chat

    async def _calm(self, step: TourStop) -> None:
        """Wait until nothing runs and no dialog is open, twice: there is a gap between a command and its work."""
        quiet = 0
        stopped = not step.stop_after
        while quiet < 2:
            await asyncio.sleep(LOOK_SECONDS)
            quiet = 0 if self._busy else quiet + 1
            if not self._speed:
                continue
            if not stopped and self._app.chat.session.presenter.activity.tokens_out > step.stop_after:
                stopped = True
                self._press("escape")
            if self._app.screen is not self._app.chat:
                await self._answer()

    async def _play(self, step: TourStop) -> None:
        await asyncio.sleep(READING_SECONDS / self._speed)
        for character in step.line:
            self._press(character, character)
            await asyncio.sleep(KEY_SECONDS / self._speed)
        await asyncio.sleep(READING_SECONDS / 4 / self._speed)
        self._press("enter", "\r")

    async def _answer(self) -> None:
        """Leave a dialog open long enough to read, then choose its first choice. A dialog ignores keys at first,
        whatever the speed."""
        screen = self._app.screen
        guarded = screen.guard.pause if isinstance(screen, Dialog) else 2 * PAUSE
        await asyncio.sleep(max(guarded + LOOK_SECONDS, READING_SECONDS / self._speed))
        if self._app.screen is screen:
            self._press("enter", "\r")
            await asyncio.sleep(LOOK_SECONDS)

    def _press(self, key: str, character: str | None = None) -> None:
        self._app.post_message(events.Key(key, character))
