"""Message pumps that report whether they are busy, so that a key may bypass an empty message queue."""

from __future__ import annotations

from textual.message import Message
from textual.message_pump import MessagePump

from agentcli.tui.textual_internals import is_queue_empty


class BusyPump(MessagePump):
    is_busy = False
    """Whether a message is being handled. While an async handler awaits, other code may run."""

    async def _dispatch_message(self, message: Message) -> None:
        self.is_busy = True
        try:
            await super()._dispatch_message(message)
        finally:
            self.is_busy = False

    @property
    def has_work(self) -> bool:
        return self.is_busy or not is_queue_empty(self)
