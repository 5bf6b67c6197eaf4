"""The app survives `Stuck`: the handler that blocked Esc is ended, and nothing else.

Textual takes any exception in a handler for the end: of the widget's queue at once, and then of the app. For this one
exception that would make the cure worse than the illness, so it is caught where handlers are called.
"""

from __future__ import annotations

from typing import Any

from textual.message import Message
from textual.message_pump import MessagePump
from textual.worker import WorkerFailed

from agentcli.tui.terminal.watchdog import Stuck


class Freed(Message):
    """Something blocked Esc for too long and was ended. The app may say so."""


def survive_stuck_handlers(app: Any) -> None:
    """For this app, and all widgets in the process: they have no common class of ours to do it in."""
    end_the_app = app._handle_exception

    def go_on_or_end(error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, Stuck):
            app.post_message(Freed())
        else:
            end_the_app(error)

    app._handle_exception = go_on_or_end
    if getattr(MessagePump._dispatch_message, "survives_stuck", False):
        return
    dispatch = MessagePump._dispatch_message

    async def forgiving_dispatch(self: MessagePump, message: Message) -> None:
        try:
            await dispatch(self, message)
        except Stuck:
            self.app.post_message(Freed())

    forgiving_dispatch.survives_stuck = True  # type: ignore[attr-defined]
    MessagePump._dispatch_message = forgiving_dispatch  # type: ignore[method-assign]
