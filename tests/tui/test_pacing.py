"""Keys of a burst act in the order they were pressed, and a slow key does not block the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, TextArea

from agentcli.tui.terminal.key_order import PATIENCE_SECONDS, KeyOrder


class Host(App[None]):
    BINDINGS: ClassVar = [("f2", "wait"), ("f3", "note('third')")]

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.release = asyncio.Event()

    def compose(self) -> ComposeResult:
        with Vertical(), Vertical():
            yield TextArea()

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_note(self, text: str) -> None:
        self.notes.append(f"{text}: {self.query_one(TextArea).text}")

    async def action_wait(self) -> None:
        self.notes.append("waiting")
        await self.release.wait()
        self.notes.append("released")


def keys(*names: str) -> Iterable[Message]:
    for name in names:
        yield events.Key(name, name if len(name) == 1 else None)


def run(act: Callable[[Host, KeyOrder], Awaitable[None]]) -> None:
    async def main() -> None:
        app = Host()
        async with app.run_test() as pilot:
            await pilot.pause()
            await act(app, KeyOrder(app, asyncio.get_running_loop()))

    asyncio.run(main())


async def settled(order: KeyOrder) -> None:
    done = asyncio.Event()
    order.settle(done.set)
    await asyncio.wait_for(done.wait(), 10)


def test_a_burst_of_text_and_other_keys_acts_in_order() -> None:
    async def act(app: Host, order: KeyOrder) -> None:
        for key in keys("a", "b", "backspace", "c", "left", "left", "x", "end", "y", "f3", "z"):
            order.post(key)
        await settled(order)
        assert app.query_one(TextArea).text == "xacyz"
        assert app.notes == ["third: xacy"]

    run(act)


def test_other_events_keep_their_order_among_keys() -> None:
    async def act(app: Host, order: KeyOrder) -> None:
        for message in (*keys("a", "home"), events.Paste("pasted "), *keys("b", "f3")):
            order.post(message)
        await settled(order)
        assert app.query_one(TextArea).text == "pasted ba"

    run(act)


def test_a_key_that_closes_a_dialog_does_not_delay_keys_for_the_screen_below() -> None:
    class Dialog(ModalScreen[None]):
        BINDINGS: ClassVar = [("f8", "dismiss")]

        def compose(self) -> ComposeResult:
            yield Button("Yes")

    async def act(app: Host, order: KeyOrder) -> None:
        for _ in range(3):
            await app.push_screen(Dialog())
            began = time.monotonic()
            for key in keys("tab", "f8", "a", "b", "backspace", "c"):
                order.post(key)
            await settled(order)
            assert time.monotonic() - began < PATIENCE_SECONDS
        assert order._stalled_until == 0.0
        assert app.query_one(TextArea).text == "acacac"

    run(act)


def test_a_slow_key_action_does_not_block_the_keyboard() -> None:
    async def act(app: Host, order: KeyOrder) -> None:
        text = app.query_one(TextArea)
        for key in keys("f2", "a", "b", "c"):
            order.post(key)
        while not app.notes or order._pending:
            await asyncio.sleep(0.005)
        assert app.notes == ["waiting"]
        assert not order._pending
        app.release.set()
        await settled(order)
        assert text.text == "abc"
        for key in keys("backspace", "d"):
            order.post(key)
        await settled(order)
        assert text.text == "abd"

    run(act)
