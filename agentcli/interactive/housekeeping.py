"""Work beside the submissions of an interactive session that nothing waits for: name it, send its
traces, and delete old sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.aio import AbortController, in_thread
from agentcli.core.messages import Origin
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.agent.session import Session
    from agentcli.history.export.span_sender import SpanSender


_TITLE_SYSTEM = (
    "You name conversations with a coding agent. Answer with a title of three to seven words for the task, in the "
    "language of the prompt, without quotes and without a full stop. Do not do the task."
)
_MAX_TITLE = 60
_MAX_PROMPT = 2_000
_MAX_ANSWER = 500
_MAX_TITLE_TOKENS = 64


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
        if engine is not self._titled and _needs_title(engine.session):
            self._titled = engine
            await _generate_title(engine.session, show)
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


def _needs_title(session: Session) -> bool:
    """Whether a title may be generated now: for a new session that is saved, has an answer and has no name."""
    store, settings = session.store, session.settings
    if not settings.tuning.session_titles or store.path is None or store.title or session.resumed.log:
        return False
    # A model outside the catalogue may be large or slow.
    is_small_known = session.catalog.get(session.profile.small_model).known
    has_answer = any(message.origin is Origin.REPLY and message.text for message in session.log.messages)
    return is_small_known and has_answer and not session.costs.budget.is_nearly_spent


async def _generate_title(session: Session, show: Callable[[ev.Event], None]) -> None:
    """Name a session by one short request to the small model. A name given by the user wins, and a failure is silent.
    `show` gets the usage, which is counted already."""
    from agentcli.agent.side_call import SideCall

    messages = session.log.messages
    prompt = next((message.typed for message in messages if message.is_prompt), "")
    answer = next((message.text for message in reversed(messages) if message.origin is Origin.REPLY), "")
    described = f"Prompt:\n{prompt[:_MAX_PROMPT]}\n\nBeginning of the answer:\n{answer[:_MAX_ANSWER]}"
    request = replace(session.requests.small(_TITLE_SYSTEM, described), max_tokens=_MAX_TITLE_TOKENS, purpose="title")

    def count(event: ev.Event) -> None:
        if isinstance(event, ev.UsageReported):
            session.costs.take(event)
            session.store.record(event)
            show(event)

    async def take(event: ev.Event) -> None:
        count(event)

    call = SideCall(session)
    with AbortController() as controller:
        await call.run(request, controller.signal, take, count)
    title = plain_line((call.text or "").strip().partition("\n")[0].strip(" \"'“”„«»`*#."), _MAX_TITLE)
    if title and not session.store.title:
        session.store.set_title(title, generated=True)
