"""Makes keys act in the order they were pressed, however fast they arrive.

In Textual the focused widget inserts a character as soon as the key arrives, but a key binding acts only after the key
has bubbled up through all parents to the app, and a priority binding before the widget sees anything: in a burst
`a b Backspace c` the `c` would be deleted. So after a key that is not text, the next one waits until the first has been
processed completely. That takes well under a millisecond, noticeable only for automated typing.

Text with no earlier keys pending skips the queues: an app that supports it inserts the text immediately.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from textual import events
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen

from agentcli.tui.textual_internals import is_closing

PATIENCE_SECONDS = 0.5
"""Maximum wait for a key: a handler may take long, or wait for a later key. Order is not worth a dead keyboard."""
LOOK_SECONDS = 0.01
STALLED_SECONDS = 2.0
URGENT_SECONDS = 0.05
"""The same for keys that interrupt."""
BURST_SECONDS = 0.05
"""Text typed within this time may still be on its way to the focused widget."""
MOST_AT_ONCE = 32
"""Maximum number of keys at once that skip the queues. More were not typed by hand, and would delay everything else."""
_URGENT = ("escape", "ctrl+c")


@runtime_checkable
class TypesDirectly(Protocol):
    """`direct_keys` of an app that can take keys outside of its queues."""

    def type_directly(self, event: events.Key, *, alone: bool) -> bool:
        """Insert a character now. Return False and do nothing unless the key would be handled next and would only be
        inserted. `alone`: no other key came with it."""
        ...

    def paint_typed(self) -> None:
        """Paint directly inserted text."""
        ...

    def interrupt_directly(self, event: events.Key) -> bool:
        """Stop the running work if the key would do that next; otherwise return False and do nothing."""
        ...


class KeyOrder:
    """Call all methods in the thread of the event loop."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop
        direct = getattr(app, "direct_keys", None)
        self._direct = direct if isinstance(direct, TypesDirectly) else None
        self._pending: deque[Message | Callable[[], object]] = deque()
        self._text_at = 0.0
        self._round = 0
        self._waiting = False
        self._stalled_until = 0.0
        self._hop: MessagePump | None = None
        """Pump whose queue contains the callback that follows the key."""

    def post(self, *messages: Message) -> None:
        self._pending.extend(messages)
        if self._waiting and any(isinstance(one, events.Key) and one.key in _URGENT for one in messages):
            self._loop.call_later(URGENT_SECONDS, self._give_up, self._round)
        self._advance()

    def settle(self, then: Callable[[], object]) -> None:
        """Call `then`, in the app, once everything posted so far has been processed."""
        self._pending.append(then)
        self._advance()

    def _advance(self) -> None:
        typed = 0
        while self._pending and not self._waiting:
            first = self._pending.popleft()
            if not isinstance(first, Message):
                self._pass_on(self._app, first, through_focus=True)
                continue
            if not isinstance(first, events.Key):
                self._app.post_message(first)
            elif first.is_printable and not self._in_dialog():
                if typed < MOST_AT_ONCE and self._type_directly(first, alone=not typed and not self._pending):
                    typed += 1
                    continue
                self._text_at = time.monotonic()
                self._app.post_message(first)
            elif self._direct is not None and not self._in_dialog() and self._direct.interrupt_directly(first):
                continue
            elif time.monotonic() - self._text_at < BURST_SECONDS and first.key not in _URGENT:
                self._text_at = 0.0
                self._pending.appendleft(first)
                self._wait()
            else:
                self._app.post_message(first)
                self._wait()
        if typed and self._direct is not None:
            self._direct.paint_typed()

    def _type_directly(self, event: events.Key, *, alone: bool) -> bool:
        # While a key is stuck, later keys that skip the queues could overtake those that did not.
        if self._direct is None or time.monotonic() < self._stalled_until:
            return False
        return self._direct.type_directly(event, alone=alone)

    def _wait(self) -> None:
        if time.monotonic() < self._stalled_until:
            return
        self._round += 1
        self._waiting = True
        began, this_round = time.monotonic(), self._round

        def settled() -> None:
            if this_round == self._round:
                self._stalled_until = 0.0
                self._waiting = False
                self._advance()

        def look_after_it() -> None:
            if not self._waiting or this_round != self._round:
                return
            if self._hop is not None and is_closing(self._hop):
                settled()  # The key closed its target, e.g. a dialog, and the callback was lost with it.
            elif time.monotonic() - began > PATIENCE_SECONDS:
                self._give_up(this_round)
            else:
                self._loop.call_later(LOOK_SECONDS, look_after_it)

        self._loop.call_later(LOOK_SECONDS, look_after_it)
        self._pass_on(self._app, settled, through_focus=True)

    def _give_up(self, this_round: int) -> None:
        """Stop waiting for a key. For a while later keys do not wait either, unless that key is processed meanwhile."""
        if this_round == self._round and self._waiting:
            self._waiting = False
            self._stalled_until = time.monotonic() + STALLED_SECONDS
            self._advance()

    def _pass_on(self, pump: MessagePump, then: Callable[[], object], *, through_focus: bool) -> None:
        """Send a callback after the key through all queues on its way: app, focused widget, its parents, app."""

        def next_hop() -> None:
            if through_focus:
                following: MessagePump | None = self._app.focused or self._screen()
            else:
                following = getattr(pump, "parent", None)
            if following is None:
                then()
            else:
                self._pass_on(following, then, through_focus=False)

        self._hop = pump
        if not pump.call_later(next_hop):
            then()  # it is closing, so its keys are discarded

    def _in_dialog(self) -> bool:
        """Whether a dialog is open. There a letter may answer and close it; later keys then go to the screen below."""
        return isinstance(self._screen(), ModalScreen)

    def _screen(self) -> MessagePump | None:
        stack = self._app.screen_stack
        return stack[-1] if stack else None
