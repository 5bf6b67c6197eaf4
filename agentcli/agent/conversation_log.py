"""The messages of a conversation and their session file, kept in step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentcli.agent.old_content import OldContent
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.core import events as ev
from agentcli.core.growing import Growing
from agentcli.core.messages import Message, Origin, ToolUseBlock
from agentcli.session.base import Store


class ConversationLog:
    """`unrecorded`: events of the start, which the next start reports again."""

    def __init__(
        self, messages: Sequence[Message], store: Store, queue: PromptQueue, unrecorded: Collection[ev.Event] = ()
    ) -> None:
        self.messages: Growing[Message] = Growing(messages)
        self._store = store
        self._queue = queue
        self._unrecorded = unrecorded
        self._old_content = OldContent(messages)
        self._with_effects: set[str] = set()
        """Ids of the calls of the running turn that may change something."""
        self._is_reply_whole = False
        """The next request is waited for."""

    def keep(self, event: ev.Event) -> None:
        """Record an event in the session file; a message also becomes part of the conversation."""
        if self._can_wait(event):
            self._store.record_soon(event)
        elif not self._unrecorded or not any(event is one for one in self._unrecorded):
            self._store.record(event)
        if isinstance(event, ev.ReplyStarted):
            self._is_reply_whole = False
            self._store.write_due()
        elif isinstance(event, ev.MessageAppended):
            self.messages = self.messages.adding(event.message)
            self._is_reply_whole = event.message.origin is Origin.REPLY
            if event.message.origin is Origin.QUEUED:
                # In the same step: a prompt is never both queued and in the log, and never in neither.
                self._queue.remove(event.message.id)
            elif event.message.origin is Origin.TOOL_RESULTS:
                self._with_effects.clear()
        self._old_content.take(event, self.messages)

    def begin_effects(self, call_id: str) -> None:
        """A call that may change something is about to run: record what came before it, and its end when it comes."""
        self._store.write_due()
        self._with_effects.add(call_id)

    def _can_wait(self, event: ev.Event) -> bool:
        """Whether an event is recorded behind the next request, which recording it would delay, and before its reply.

        If the process is killed in between, a resumed session lacks the end of a reply, its calls and the results that
        came after it. None of them has changed anything: a call that may is recorded before it runs, and its result at
        once.
        """
        match event:
            case ev.BlockFinished(block=block):
                return isinstance(block, ToolUseBlock)
            case ev.MessageAppended(message=message):
                return message.origin is Origin.REPLY or message.origin is Origin.TOOL_RESULTS
            case ev.ToolStarted() | ev.ToolFinished():
                return self._is_reply_whole and not event.agent and event.tool_use_id not in self._with_effects
            case ev.ContextEdited():
                # The user's own are made at any time, also when no request follows.
                return event.step not in ("person", "compact")
            case _:
                return isinstance(event, ev.PrefixBroken)

    def record_if_begun(self, event: ev.Event) -> None:
        """Record an event of between submissions. A session without a message has no file."""
        if self.messages:
            self._store.record(event)

    def has(self, message_id: str) -> bool:
        return any(message.id == message_id for message in reversed(self.messages))

    @property
    def last_reply_id(self) -> str:
        return next((message.id for message in reversed(self.messages) if message.usage is not None), "none")
