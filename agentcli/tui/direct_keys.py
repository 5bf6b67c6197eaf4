"""Keys that skip Textual's message queues: characters for the prompt, and those that interrupt the work.

`terminal/key_order.py` calls this for each key; it declines unless the key would be next in every queue anyway.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from typing import TYPE_CHECKING

from textual import events

from agentcli.tui.keys import interrupting_keys
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.textual_internals import end_with, is_closing

if TYPE_CHECKING:
    from agentcli.tui.app import AgentApp

ECHO_SECONDS = 0.004
"""Time from the direct echo of a character by the terminal to the frame that contains it."""


class DirectKeys:
    """Implements `TypesDirectly`. An exception ends the app, as one in a message handler does."""

    def __init__(self, app: AgentApp) -> None:
        self._app = app
        self._context = Context()
        self._interrupting = interrupting_keys(app.preferences.keymap or {})
        self._is_echoed = False
        """Whether the terminal shows a typed character that is not painted yet."""

    def begin(self) -> None:
        """Call in a message handler of the app: interruptions run in its context."""
        self._context = copy_context()

    @property
    def _may_skip_queues(self) -> bool:
        """Whether no message is ahead of a key, and keys are for the chat screen."""
        app = self._app
        return not app.has_work and app.app_focus and app.screen_stack[-1:] == [app.chat] and not is_closing(app)

    def type_directly(self, event: events.Key, *, alone: bool) -> bool:
        if not self._may_skip_queues:
            return False
        app, editor = self._app, self._app.chat.focused
        try:
            if not isinstance(editor, PromptEditor) or not editor.would_type(event):
                return False
            if alone and (driver := app.painting_driver()) is not None and (echo := editor.echo(event)) is not None:
                self._is_echoed = driver.echo(*app.cursor_position, *echo)
            editor.type_directly(event, is_echoed=self._is_echoed)
        except Exception as error:  # noqa: BLE001 -- see the class
            end_with(app, error)
        return True

    def interrupt_directly(self, event: events.Key) -> bool:
        chat = self._app.chat
        if event.key not in self._interrupting or not self._may_skip_queues or not chat.session.busy:
            return False
        try:
            self._context.run(chat.action_interrupt_work)
        except Exception as error:  # noqa: BLE001 -- see the class
            end_with(self._app, error)
        return True

    def paint_typed(self) -> None:
        """Paint typed characters now, or soon if the terminal echoed them: it shows an echo sooner when no other output
        follows at once."""
        editor = self._app.chat.focused
        if not isinstance(editor, PromptEditor):
            return
        is_echoed, self._is_echoed = self._is_echoed, False
        try:
            if is_echoed:
                asyncio.get_running_loop().call_later(ECHO_SECONDS, self._paint_editor, editor)
            else:
                editor.paint_typed()
            editor.tell_of_typed()
        except Exception as error:  # noqa: BLE001 -- see the class
            end_with(self._app, error)

    def _paint_editor(self, editor: PromptEditor) -> None:
        try:
            if editor.is_attached and not is_closing(editor):
                editor.paint_typed()
        except Exception as error:  # noqa: BLE001 -- see the class
            end_with(self._app, error)
