"""Message pumps that report whether they are busy, so that a key may bypass an empty message queue."""

from __future__ import annotations

from textual.message import Message
from textual.message_pump import MessagePump

from agentcli.tui.textual_internals import is_queue_empty


class KnowsItsWork(MessagePump):
    at_work = False
    """Whether a message is being handled. While an async handler awaits, other code may run."""

    async def _dispatch_message(self, message: Message) -> None:
        self.at_work = True
        try:
            await super()._dispatch_message(message)
        finally:
            self.at_work = False

    @property
    def has_work(self) -> bool:
        return self.at_work or not is_queue_empty(self)
