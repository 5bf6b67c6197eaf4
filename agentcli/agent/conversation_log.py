"""The messages of a conversation and their session file, kept in step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentcli.agent.old_content import OldContent
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.core import events as ev
from agentcli.core.growing import Growing
from agentcli.core.messages import Message, Origin
from agentcli.core.permission import PermissionMode
from agentcli.session.base import Store


class ConversationLog:
    """`unrecorded`: events of the start, which the next start reports again; `mode`: the last permission mode in the
    session file."""

    def __init__(
        self,
        messages: Sequence[Message],
        store: Store,
        queue: PromptQueue,
        unrecorded: Collection[ev.Event] = (),
        mode: str = PermissionMode.DEFAULT.value,
    ) -> None:
        self.messages: Growing[Message] = Growing(messages)
        self._store = store
        self._queue = queue
        self._unrecorded = unrecorded
        self._mode = mode
        self._old_content = OldContent(messages)

    def keep(self, event: ev.Event) -> None:
        """Record an event in the session file; a message also becomes part of the conversation."""
        if not any(event is one for one in self._unrecorded):
            self._store.record(event)
        if isinstance(event, ev.MessageAppended):
            self.messages = self.messages.adding(event.message)
            if event.message.origin is Origin.QUEUED:
                # In the same step: a prompt is never both queued and in the log, and never in neither.
                self._queue.remove(event.message.id)
        elif isinstance(event, ev.ModeChanged):
            self._mode = event.mode
        self._old_content.take(event, self.messages)

    def record_if_begun(self, event: ev.Event) -> None:
        """Record an event of between submissions. A session without a message has no file."""
        if self.messages:
            self._store.record(event)

    def record_mode(self, mode: str) -> None:
        """Record the permission mode if it is not the last one recorded: it may come from a flag, the settings or a key
        of the front end. A resumed session continues in it."""
        if mode != self._mode and self.messages:
            self._mode = mode
            self._store.record(ev.ModeChanged(mode=mode, reason=ev.MODE_CHOSEN))

    def has(self, message_id: str) -> bool:
        return any(message.id == message_id for message in reversed(self.messages))

    @property
    def last_reply_id(self) -> str:
        return next((message.id for message in reversed(self.messages) if message.usage is not None), "none")
