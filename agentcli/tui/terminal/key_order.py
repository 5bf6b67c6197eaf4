"""Makes keys act in the order they were pressed, however fast they arrive.

Textual gives keys to the focused widget one after another, but a key binding acts only after its key has bubbled up
through all parents to the app, a priority binding before the widget sees earlier keys, and a key that closes a dialog
after the next one was sent to that dialog. Over a slow connection, or typed before the app was ready, keys arrive in
bursts. So a key that is not text waits for the text before it, and the next key for that one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from textual import events
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import ModalScreen

MAX_WAIT_SECONDS = 0.1
"""Maximum wait for a key: its handler may take long, or close the widget that would report the end."""


class KeyOrder:
    """Call all methods in the thread of the event loop."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop
        self._pending: deque[Message | Callable[[], object]] = deque()
        self._is_text_unsettled = False
        """Whether text may still be on its way to the focused widget."""
        self._is_waiting = False
        self._round = 0
        """Number of waits so far."""

    def post(self, *messages: Message) -> None:
        self._pending.extend(messages)
        self._advance()

    def call_when_settled(self, callback: Callable[[], object]) -> None:
        """Call it in the app, once everything posted so far has been processed."""
        self._pending.append(callback)
        self._advance()

    def _advance(self) -> None:
        while self._pending and not self._is_waiting:
            first = self._pending[0]
            is_key = isinstance(first, events.Key)
            is_text = isinstance(first, events.Key) and first.is_printable and not self._is_dialog_open()
            if self._is_text_unsettled and (not isinstance(first, Message) or (is_key and not is_text)):
                self._is_text_unsettled = False
                self._wait()
                return
            self._pending.popleft()
            if not isinstance(first, Message):
                self._app.call_later(first)
                continue
            self._app.post_message(first)
            if is_text or isinstance(first, events.Paste):
                self._is_text_unsettled = True
            elif is_key:
                self._wait()

    def _wait(self) -> None:
        self._round += 1
        self._is_waiting = True
        self._loop.call_later(MAX_WAIT_SECONDS, self._go_on, self._round)
        self._follow(self._app, self._round, to_focused=True)

    def _follow(self, pump: DOMNode | None, number: int, *, to_focused: bool = False) -> None:
        """Pass through all queues on a key's way: app, focused widget, its parents, app."""

        def follow(passed: DOMNode) -> None:
            self._follow(self._app.focused or self._get_screen() if to_focused else passed.parent, number)

        if pump is None or not pump.call_later(follow, pump):  # False: it is closing, and discards its keys
            self._go_on(number)

    def _go_on(self, number: int) -> None:
        if self._is_waiting and number == self._round:
            self._is_waiting = False
            self._advance()

    def _get_screen(self) -> DOMNode | None:
        stack = self._app.screen_stack
        return stack[-1] if stack else None

    def _is_dialog_open(self) -> bool:
        """Whether a dialog is open. There a letter may answer and close it; later keys then go to the screen below."""
        return isinstance(self._get_screen(), ModalScreen)
