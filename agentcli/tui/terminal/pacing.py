"""Keys act in the order they were pressed, however fast they come.

In Textual a character is inserted by the focused widget as soon as the key gets there, but a key with a binding only
after it went up through all parents to the app, and one with priority before the widget sees anything: of a burst
`a b Backspace c` the `c` would go. So after a key that is not text the next one waits until the first has been all the
way. That takes well under a millisecond, which nobody notices but a machine that types.

Text that nothing is ahead of skips the queues: an app that can puts it into the focused widget in the same turn.
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
"""A handler may take long, or wait for what only a later key can bring. Then order is not worth a dead keyboard."""
LOOK_SECONDS = 0.01
STALLED_SECONDS = 2.0
URGENT_SECONDS = 0.05
"""The same for keys that interrupt."""
BURST_SECONDS = 0.05
"""Text this young may still be on its way to the focused widget."""
MOST_AT_ONCE = 32
"""Keys in one go that skip the queues. More were not typed, and are not worth keeping everything else waiting."""
_URGENT = ("escape", "ctrl+c")


@runtime_checkable
class TypesDirectly(Protocol):
    """`direct_keys` of an app that can take keys outside of its queues."""

    def type_directly(self, event: events.Key, *, alone: bool) -> bool:
        """Type a character now; False, and nothing done, unless it would be next and would only be inserted. `alone`:
        no other one came with it."""
        ...

    def paint_typed(self) -> None:
        """Paint what was typed directly."""
        ...

    def interrupt_directly(self, event: events.Key) -> bool:
        """Stop the work that runs, if that is what the key would do next; False, and nothing done, otherwise."""
        ...


class KeyOrder:
    """All methods are called in the thread of the loop."""

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
        """In whose queue the callback is that follows the key."""

    def post(self, *messages: Message) -> None:
        self._pending.extend(messages)
        if self._waiting and any(isinstance(one, events.Key) and one.key in _URGENT for one in messages):
            self._loop.call_later(URGENT_SECONDS, self._give_up, self._round)
        self._advance()

    def settle(self, then: Callable[[], object]) -> None:
        """Call `then`, in the app, once all that was posted so far has been all the way."""
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
        # While a key is stuck on its way, later ones that skip the queues could overtake those that did not.
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
                settled()  # The key closed what it was for, a dialog say, and the callback went with that.
            elif time.monotonic() - began > PATIENCE_SECONDS:
                self._give_up(this_round)
            else:
                self._loop.call_later(LOOK_SECONDS, look_after_it)

        self._loop.call_later(LOOK_SECONDS, look_after_it)
        self._pass_on(self._app, settled, through_focus=True)

    def _give_up(self, this_round: int) -> None:
        """For a while later keys do not wait any more, unless that one has been all the way meanwhile."""
        if this_round == self._round and self._waiting:
            self._waiting = False
            self._stalled_until = time.monotonic() + STALLED_SECONDS
            self._advance()

    def _pass_on(self, pump: MessagePump, then: Callable[[], object], *, through_focus: bool) -> None:
        """A callback behind the key in each queue it passes: app, focused widget, its parents, the app again."""

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
            then()  # it is closing, and its keys go nowhere

    def _in_dialog(self) -> bool:
        """There a letter may be an answer, which closes the dialog; what is typed after it is for the screen below."""
        return isinstance(self._screen(), ModalScreen)

    def _screen(self) -> MessagePump | None:
        stack = self._app.screen_stack
        return stack[-1] if stack else None
