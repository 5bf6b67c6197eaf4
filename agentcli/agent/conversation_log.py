"""The messages of a conversation and their session file, kept in step; how events get to their consumer.

The log of a long resumed session begins with a few stand-ins for an earlier part of the file that no request shows.
`whole` reads that part for callers that need all messages; `take_in` replaces the stand-ins with its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.ports import PromptQueue
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason, Outlet, in_thread, start_task, wait_uncancelled
from agentcli.core.messages import Json, Message, Origin
from agentcli.core.permission import PermissionMode
from agentcli.core.space_saving import AppendOnly
from agentcli.providers.body import Feature
from agentcli.session.base import Store

if TYPE_CHECKING:
    from agentcli.agent.live_permissions import LivePermissions
    from agentcli.agent.session import Session
    from agentcli.session.recent_messages import EarlierPart, Pace


class _LogClosed(Exception):
    """The log was closed while a thread was reading the earlier part; raised in that thread."""


class ConversationLog:
    """`unrecorded`: events of the start, not recorded because the next start reports them again. `mode`: `mode` and
    `returns_to` of the last `ModeChanged` in the session file."""

    def __init__(
        self,
        messages: Sequence[Message],
        store: Store,
        queue: PromptQueue,
        unrecorded: Collection[ev.Event] = (),
        earlier_part: EarlierPart | None = None,
        mode: tuple[str, str] = (PermissionMode.DEFAULT.value, ""),
    ) -> None:
        self.messages: AppendOnly[Message] = AppendOnly(messages)
        self._store = store
        self._queue = queue
        self._unrecorded = unrecorded
        self._mode = mode
        self._part = earlier_part
        """The part of the file that the beginning of `messages` stands for; None: `messages` is complete."""
        self._earlier: Sequence[Message] | None = None
        """Messages of that part, once read."""
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False
        self._stand_ins = earlier_part.stand_ins if earlier_part is not None else 0
        self._first_read = messages[self._stand_ins] if earlier_part is not None else None

    def keep(self, event: ev.Event) -> None:
        """Record an event in the session file; a message also becomes part of the conversation."""
        if not self._unrecorded or not any(event is one for one in self._unrecorded):
            self._store.record(event)
        if isinstance(event, ev.MessageAppended):
            self.messages = self.messages.adding(event.message)
            if event.message.origin is Origin.QUEUED:
                # Done in the same step: a prompt is always either queued or in the log, never both or neither.
                self._queue.remove(event.message.id)
        elif isinstance(event, ev.PermissionRequested) and event.tool_use_id:
            self._store.note_call(event.tool_use_id, "asked")
        elif isinstance(event, ev.PermissionResolved) and event.tool_use_id:
            self._store.note_call(event.tool_use_id, "answered", event.behavior)
        elif isinstance(event, ev.ModeChanged):
            self._mode = (event.mode, event.returns_to)

    @property
    def is_whole(self) -> bool:
        """Whether `messages` has all messages."""
        return self._part is None

    @property
    def count(self) -> int:
        """Number of messages, including those not read yet."""
        return len(self.messages) + (self._part.unread if self._part is not None else 0)

    async def whole(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Complete a sequence of this log's messages (current, or of a running submission) with all earlier ones. A
        cancelled caller does not wait for the thread that reads them."""
        if self._part is not None and self._earlier is None:
            if self._reading is None:
                self._reading = start_task(self._read_earlier(self._part))
            await asyncio.shield(self._reading)
        return self._with_earlier(messages)

    async def _read_earlier(self, part: EarlierPart) -> None:
        try:
            found = await in_thread(_read, part, self._until_closed)
        finally:
            self._reading = None
        # A front end may have read them first.
        self._earlier = found if self._earlier is None else self._earlier

    async def aclose(self) -> None:
        """Stop the thread that reads the earlier part. Callers waiting for it get what was read so far."""
        self._is_closed = True
        if self._reading is not None:
            await wait_uncancelled([self._reading])

    async def holding(self, message_ids: Collection[str]) -> Sequence[Message]:
        """Messages that include those with these ids and everything after them."""
        recent = self.messages if self._part is None else self.messages[self._stand_ins :]
        found = {message.id for message in recent}
        return recent if all(one in found for one in message_ids) else await self.whole(self.messages)

    def read_whole(self) -> Sequence[Message]:
        """All messages. Blocks for seconds if the earlier part of a long session is not read yet."""
        if self._part is not None and self._earlier is None:
            self._earlier = _read(self._part)
        return self._with_earlier(self.messages)

    def _until_closed(self, records: Iterator[Json]) -> Iterator[Json]:
        for record in records:
            if self._is_closed:
                raise _LogClosed
            yield record

    def put_earlier(self, messages: Sequence[Message]) -> None:
        """Store the messages of the earlier part, already compressed, for `take_in`."""
        self._earlier = messages

    def take_in(self) -> None:
        """Complete `messages` if the earlier part was read. Called between submissions: a running loop has its own
        copy."""
        if self._part is not None and self._earlier is not None:
            self.messages = AppendOnly(self._with_earlier(self.messages))
            self._part = None

    def _with_earlier(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._earlier is None or self._stand_ins >= len(messages):
            return messages
        is_whole = messages[self._stand_ins] is not self._first_read
        return messages if is_whole else (*self._earlier, *messages[self._stand_ins :])

    def record_if_begun(self, event: ev.Event) -> None:
        """Record an event that happened between submissions. A session without messages has no file."""
        if self.messages:
            self._store.record(event)

    def record_mode(self, permissions: LivePermissions) -> None:
        """Record the permission mode, which may come from a flag, the settings or a key of the front end, if it differs
        from the last one recorded. A resumed session continues in it."""
        change = permissions.mode_changed(ev.MODE_CHOSEN)
        if (mode := (change.mode, change.returns_to)) != self._mode and self.messages:
            self._mode = mode
            self._store.record(change)

    def has(self, message_id: str) -> bool:
        return any(message.id == message_id for message in reversed(self.messages))

    @property
    def last_reply_id(self) -> str:
        return next((message.id for message in reversed(self.messages) if message.usage is not None), "none")


def _read(part: EarlierPart, pace: Pace = iter) -> Sequence[Message] | None:
    """Read the earlier part; blocking. None if the file is gone or unreadable, or the log was closed."""
    try:
        return part.messages(pace)
    except (OSError, _LogClosed):
        return None


class Delivery:
    """Takes the events of one submission to its consumer, and records each of them (log, session file, totals) first,
    so that nothing is shown as done that a crash could lose."""

    def __init__(self, session: Session, count: Callable[[ev.Event], None]) -> None:
        """`count` gets every recorded event, for the result of the submission."""
        self._session = session
        self._count = count
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
        self._count(event)
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

        def make_warning(text: str, code: str) -> ev.NoticeRaised:
            return ev.NoticeRaised(text=text, level="warning", code=code)

        session = self._session
        while session.instruction_notices:
            yield make_warning(session.instruction_notices.pop(0), "instructions")
        while (text := session.store.take_notice()) is not None:
            yield make_warning(text, "session")
        if session.parent is not None:
            return  # The rest is about the whole session, which reports it itself.
        while (text := session.permissions.take_notice()) is not None:
            yield ev.NoticeRaised(text=text, code="permissions")
        while (text := session.workspace.take_notice()) is not None:
            yield make_warning(text, "undo")
        yield from self.take_call_changes()
        while (text := session.tool_context.launcher.take_notice()) is not None:
            yield make_warning(text, "quarantine")
        if session.plugins is not None:
            yield from session.plugins.take_notices()
        if session.server_notices is not None:
            yield from session.server_notices.take()
        yield from session.background.take_changes()
        if (text := session.costs.budget.take_warning()) is not None:
            yield make_warning(text, "budget")

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
