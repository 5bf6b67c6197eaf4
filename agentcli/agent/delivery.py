"""The way of the events of one submission to its consumer.

Every event is recorded (log, session file, totals) before the consumer gets it, so nothing is shown as done that a
crash could lose.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.costs.costs import Account
from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.aio import Outlet
from agentcli.core.messages import Origin
from agentcli.providers.requests.body import Feature

if TYPE_CHECKING:
    from agentcli.agent.session import Session


class Delivery:
    def __init__(self, session: Session, account: Account) -> None:
        self._session = session
        self._account = account
        self._outlet: Outlet[ev.Event] = Outlet()
        self.looks_for_notices = False
        """Whether notices that come up beside the work are delivered: not before the main work can begin."""
        self.keeps_rights_of = ""
        """Label of the command file whose rights last as long as the submission; "" for none."""

    async def emit(self, event: ev.Event) -> None:
        """Record an event, then hand it to the consumer."""
        self.record(event)
        await self._outlet.emit(event)
        if self.looks_for_notices and not event.policy.before_request:
            for notice in self._take_notices():
                self.record(notice)
                await self._outlet.emit(notice)

    def emit_soon(self, event: ev.Event) -> None:
        """The same without waiting for the consumer."""
        self.record(event)
        self._outlet.emit_soon(event)

    def deliver(self, work: Coroutine[Any, Any, object]) -> AsyncGenerator[ev.Event, None]:
        """Run the work and yield what it emits."""
        return self._outlet.deliver(work)

    # ----------------------------------------------------------------------------------------------------- recording

    def record(self, event: ev.Event) -> None:
        """Record an event: log, session file, totals, budget."""
        if event.policy.recorded == "no" and not event.policy.counted:
            return
        session = self._session
        self._account.take(event)
        if ev.is_of_subagent(event):
            # Its own session has recorded it and charged its costs to this one; this session file has a copy.
            session.store.record(event)
            self._stop_at_budget(event)
            if isinstance(event, ev.FeatureDropped):
                self._drop_feature(event)
            return
        if event.policy.counted:
            session.watch.note(event)
            session.costs.take(event)
        session.log.keep(event)
        if event.policy.counted:
            self._apply(event)

    def _apply(self, event: ev.Event) -> None:
        """Change the state of the conversation as a recorded event says."""
        session = self._session
        session.context.take(event)
        self._stop_at_budget(event)
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.QUEUED and session.parent is None:
                # Rights of skills end with the prompt they were loaded for; a command's last for the submission.
                session.permissions.revoke_rules(but_from=self.keeps_rights_of)
            case ev.DirectoryChanged():
                session.tool_context = replace(session.tool_context, cwd=Path(event.cwd))
            case ev.TodosChanged():
                session.todos = event.todos
            case ev.FeatureDropped():
                self._drop_feature(event)

    def _drop_feature(self, event: ev.FeatureDropped) -> None:
        if event.feature == Feature.DEFERRED_TOOLS.value:
            self._session.loaded_tools.is_refused = True
        elif event.feature == Feature.FAST_MODE.value:
            self._session.settings.without_fast_mode.add(event.model)

    def _stop_at_budget(self, event: ev.Event) -> None:
        """Abort a non-interactive submission whose budget is spent. An interactive one asks before the next request."""
        session = self._session
        if isinstance(event, ev.UsageReported) and session.costs.budget.is_spent and not session.interactive:
            session.abort(AbortReason.BUDGET)

    # ------------------------------------------------------------------------------------------------------- notices

    def _take_notices(self) -> Iterator[ev.Event]:
        """Notices that have come up beside the work, each once."""

        def warning(text: str, code: str) -> ev.NoticeRaised:
            return ev.NoticeRaised(text=text, level="warning", code=code)

        session = self._session
        while session.instruction_notices:
            yield warning(session.instruction_notices.pop(0), "instructions")
        while (text := session.store.take_notice()) is not None:
            yield warning(text, "session")
        if session.parent is not None:
            return  # The rest is about the whole session, which reports it itself.
        while (text := session.permissions.take_notice()) is not None:
            yield ev.NoticeRaised(text=text, code="permissions")
        while (text := session.workspace.take_notice()) is not None:
            yield warning(text, "undo")
        yield from self.take_call_changes()
        while (text := session.tool_context.launcher.take_notice()) is not None:
            yield warning(text, "quarantine")
        if session.plugins is not None:
            yield from session.plugins.take_notices()
        if session.server_notices is not None:
            yield from session.server_notices.take()
        yield from session.background.take_changes()
        if (text := session.costs.budget.take_warning()) is not None:
            yield warning(text, "budget")

    def take_call_changes(self) -> Iterator[ev.Event]:
        """What commands have changed, compared in the background."""
        for one in self._session.workspace.take_call_changes():
            yield ev.CommandChangedFiles(
                tool_use_id=one.call_id,
                files=one.files,
                added=one.added,
                removed=one.removed,
                diff=one.diff,
                is_cut=one.is_cut,
            )
