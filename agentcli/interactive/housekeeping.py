"""Work beside the submissions of an interactive session that nothing waits for: name it, send its
traces, and delete old sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from agentcli.agent.engine import Engine
from agentcli.core import events as ev
from agentcli.core.aio import in_thread
from agentcli.core.text.format import byte_size, counted

if TYPE_CHECKING:
    from agentcli.history.export.span_sender import SpanSender


class Housekeeping:
    """Does each piece of work once, at the end of the first submission after which it can be done."""

    def __init__(self) -> None:
        self._titled: Engine | None = None
        self._is_tidied = False
        self._sender: SpanSender | None = None

    def open(self, engine: Engine, report: Callable[[str, str], None]) -> None:
        """Called when a session is opened. `report` takes a text and its level."""
        self._sender = None
        if engine.session.settings.tuning.otlp_endpoint:
            from agentcli.history.export.span_sender import open_sender

            self._sender = open_sender(engine, lambda text: report(text, "warning"))

    def end_submission(self) -> None:
        if self._sender is not None:
            self._sender.take()

    async def aclose(self) -> None:
        if self._sender is not None:
            await self._sender.aclose()

    async def run(self, engine: Engine, show: Callable[[ev.Event], None]) -> None:
        from agentcli.agent.title import generate_title, needs_title

        if engine is not self._titled and needs_title(engine.session):
            self._titled = engine
            await generate_title(engine.session, show)
        if not self._is_tidied and engine.message_count:
            self._is_tidied = True
            if text := await _delete_old_sessions(engine):
                show(ev.NoticeRaised(text=text))


async def _delete_old_sessions(engine: Engine) -> str:
    """Apply the setting; returns a notice for the user, "" if nothing was deleted."""
    days, path = engine.session.settings.tuning.session_retention_days, engine.session.store.path
    if not days or path is None:
        return ""
    from agentcli.history.removal import apply_retention

    with suppress(OSError):
        count, freed = await in_thread(apply_retention, path.parents[2], days)
        if count:
            sessions = counted(count, "session")
            return f"Deleted {sessions} not changed for {days} days (sessionRetentionDays): {byte_size(freed)} freed."
    return ""
