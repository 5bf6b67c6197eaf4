"""Keeps the app alive after `Stuck`: only the handler that blocked Esc is stopped.

Textual treats any exception in a handler as fatal, first for the widget's queue and then for the app. For this
exception that would be worse than the hang, so it is caught where handlers are called.
"""

from __future__ import annotations

from typing import Any

from textual.message import Message
from textual.message_pump import MessagePump
from textual.worker import WorkerFailed

from agentcli.tui.terminal.watchdog import Stuck


class Freed(Message):
    """A handler blocked Esc for too long and was stopped. The app may report it."""


def survive_stuck_handlers(app: Any) -> None:
    """Patch this app, and all widgets in the process, because they have no common base class of ours."""
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
