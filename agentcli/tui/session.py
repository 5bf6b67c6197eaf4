"""The app's session: the driver of the engine with the transcript as its view. No Textual here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.interactive.driver import SessionDriver
from agentcli.tui.model import Item
from agentcli.tui.presenter import Presenter
from agentcli.tui.session_view import SessionScreen, TranscriptView

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine


class Session(SessionDriver):
    def __init__(
        self,
        screen: SessionScreen,
        now: Callable[[], float] = time.monotonic,
        read_branch: Callable[[Path], str] | None = None,
    ) -> None:
        self._transcript = TranscriptView(screen, now, read_branch)
        super().__init__(self._transcript)

    @property
    def presenter(self) -> Presenter:
        return self._transcript.presenter

    def preview(self, items: Sequence[Item]) -> None:
        """Show the end of the conversation that is about to be opened."""
        self._transcript.preview(items)

    def refresh_facts(self) -> None:
        """Show the status line again: something it shows may have changed."""
        self._transcript.refresh_status()

    def open(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        """As the driver's; `past` are the items of the conversation, if they exist already."""
        self._transcript.past = past if past is not None else self._transcript.past
        super().open(engine)

    async def replace(self, engine: Engine, past: Sequence[Item] | None = None) -> None:
        self._transcript.past = past
        await super().replace(engine)

    async def close(self) -> None:
        await self._transcript.facts.aclose()
        await super().close()
