"""The messages of a conversation and their session file, kept in step.

Of a long resumed session the log begins with some messages that stand for an earlier part of the file. No request shows
that part. `whole` reads it for those who need all messages, and `take_in` puts its messages where they belong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.agent.old_content import OldContent
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.core import events as ev
from agentcli.core.aio import in_thread, wait_uncancelled
from agentcli.core.growing import Growing
from agentcli.core.messages import Json, Message, Origin, ToolUseBlock
from agentcli.core.permission import PermissionMode
from agentcli.session.base import Store

if TYPE_CHECKING:
    from agentcli.session.recent import EarlierPart, Pace


class _LogClosed(Exception):
    """Raised in the thread that reads the earlier part."""


class ConversationLog:
    """`unrecorded`: events of the start, which the next start reports again; `mode`: the last permission mode in the
    session file."""

    def __init__(
        self,
        messages: Sequence[Message],
        store: Store,
        queue: PromptQueue,
        unrecorded: Collection[ev.Event] = (),
        earlier_part: EarlierPart | None = None,
        mode: str = PermissionMode.DEFAULT.value,
    ) -> None:
        self.messages: Growing[Message] = Growing(messages)
        self._store = store
        self._queue = queue
        self._unrecorded = unrecorded
        self._mode = mode
        self._old_content = OldContent(messages)
        self._with_effects: set[str] = set()
        """Ids of the calls of the running turn that may change something."""
        self._is_reply_whole = False
        """The next request is waited for."""
        self._part = earlier_part
        """What the beginning of `messages` stands for; None: it is all there."""
        self._earlier: Sequence[Message] | None = None
        """The messages of that part, once they were read."""
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False
        self._stand_ins = earlier_part.stand_ins if earlier_part is not None else 0
        self._first_read = messages[self._stand_ins] if earlier_part is not None else None

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
        elif isinstance(event, ev.ModeChanged):
            self._mode = event.mode
        elif isinstance(event, ev.LoopEnded):
            self._store.write_due()
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

    @property
    def is_whole(self) -> bool:
        """Whether `messages` has all messages."""
        return self._part is None

    @property
    def count(self) -> int:
        """Number of messages, also of those that were not read."""
        return len(self.messages) + (self._part.unread if self._part is not None else 0)

    async def whole(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages of this log, of now or of a running submission, with all that were before them. A caller that is
        cancelled does not wait for the thread that reads them."""
        if self._part is not None and self._earlier is None:
            if self._reading is None:
                self._reading = asyncio.get_running_loop().create_task(self._read_earlier(self._part))
            await asyncio.shield(self._reading)
        return self._with_earlier(messages)

    async def _read_earlier(self, part: EarlierPart) -> None:
        try:
            found = await in_thread(_read, part, self._until_closed)
        finally:
            self._reading = None
        # A front end may have been quicker.
        self._earlier = found if self._earlier is None else self._earlier

    async def aclose(self) -> None:
        """End the thread that reads the earlier part. Who waits for it gets what there is."""
        self._is_closed = True
        if self._reading is not None:
            await wait_uncancelled([self._reading])

    async def holding(self, message_ids: Collection[str]) -> Sequence[Message]:
        """Messages that have those with these ids, and all that came after them."""
        recent = self.messages if self._part is None else self.messages[self._stand_ins :]
        found = {message.id for message in recent}
        return recent if all(one in found for one in message_ids) else await self.whole(self.messages)

    def read_whole(self) -> Sequence[Message]:
        """All messages. Blocking for seconds if the earlier part of a long session is not read yet."""
        if self._part is not None and self._earlier is None:
            self._earlier = _read(self._part)
        return self._with_earlier(self.messages)

    def _until_closed(self, records: Iterator[Json]) -> Iterator[Json]:
        for record in records:
            if self._is_closed:
                raise _LogClosed
            yield record

    def put_earlier(self, messages: Sequence[Message]) -> None:
        """`messages`: those of the earlier part, already compressed. `take_in` uses them."""
        self._earlier = messages

    def take_in(self) -> None:
        """Let `messages` have all messages, if they were read. Called between submissions: a loop has its own."""
        if self._part is not None and self._earlier is not None:
            self.messages = Growing(self._with_earlier(self.messages))
            self._old_content.shift(len(self._earlier) - self._part.stand_ins, len(self._earlier))
            self._part = None

    def _with_earlier(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._earlier is None or self._stand_ins >= len(messages):
            return messages
        is_whole = messages[self._stand_ins] is not self._first_read
        return messages if is_whole else (*self._earlier, *messages[self._stand_ins :])

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


def _read(part: EarlierPart, pace: Pace = iter) -> Sequence[Message] | None:
    """Blocking. None if the file is gone, or cannot be read any more, or the log was closed."""
    try:
        return part.messages(pace)
    except (OSError, _LogClosed):
        return None
