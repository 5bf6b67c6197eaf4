"""Keys of a burst act in the order they were pressed, where they are meant for, and a slow key blocks no others."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Button, TextArea

from agentcli.interactive.drafts import Draft, History
from agentcli.tui.app import AgentApp
from agentcli.tui.keys import list_interrupting_keys
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.text import EntryLine
from agentcli.tui.terminal.driver import KeyOrder
from agentcli.tui.terminal.input import InputFilter, Translation
from tests.support.examples import points
from tests.support.scripts import fault, reply, say
from tests.tui.test_app import Desk, rows, sends, until

PASTE = "paste:"
TYPED = "ab ./!-日é\u0301👍🏽"
"""Without `@`: its menu opens when files were found, and then has the arrow keys."""
OTHER = (
    *("backspace", "delete", "left", "right", "home", "end", "up", "down", "shift+left", "shift+home", "f7"),
    *("ctrl+w", "ctrl+u", "ctrl+k", "ctrl+y", "ctrl+underscore", "alt+underscore", "shift+enter", "ctrl+o"),
)


def message_of(step: str) -> Message:
    if step.startswith(PASTE):
        return events.Paste(step.removeprefix(PASTE))
    return events.Key(step, step if len(step) == 1 else None)


async def settled(order: KeyOrder) -> None:
    done = asyncio.Event()
    order.post(done.set)
    await asyncio.wait_for(done.wait(), 10)


# --------------------------------------------------------------------------------------------------- a small app


class Host(App[None]):
    BINDINGS: ClassVar = [("f2", "wait"), ("f3", "note('third')")]

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.release = asyncio.Event()
        self.order: KeyOrder

    def compose(self) -> ComposeResult:
        with Vertical(), Vertical():
            yield TextArea()

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    @property
    def text(self) -> str:
        return self.query_one(TextArea).text

    async def press(self, *steps: str) -> None:
        self.order.post(*map(message_of, steps))
        await settled(self.order)

    def action_note(self, text: str) -> None:
        self.notes.append(f"{text}: {self.text}")

    async def action_wait(self) -> None:
        self.notes.append("waiting")
        await self.release.wait()


class Dialog(ModalScreen[None]):
    BINDINGS: ClassVar = [("f8", "dismiss")]

    def compose(self) -> ComposeResult:
        yield Button("Yes")


@pytest.fixture
async def app() -> AsyncIterator[Host]:
    host = Host()
    async with host.run_test() as pilot:
        await pilot.pause()
        host.order = KeyOrder(host, asyncio.get_running_loop())
        yield host


@pytest.mark.anyio
async def test_bursts_of_text_pastes_and_bindings_act_in_order(app: Host) -> None:
    await app.press("a", "b", "backspace", "c", "left", "left", "x", "end", "y", "f3", "z")
    assert app.text == "xacyz"
    assert app.notes == ["third: xacy"]
    app.query_one(TextArea).text = ""
    await app.press("a", "home", f"{PASTE}pasted ", "b", "f3")
    assert app.text == "pasted ba"


@pytest.mark.anyio
async def test_keys_after_one_that_closes_a_dialog_are_for_the_screen_below(app: Host) -> None:
    for _ in range(3):
        await app.push_screen(Dialog())
        await app.press("tab", "f8", "a", "b", "backspace", "c")
    assert app.text == "acacac"


@pytest.mark.anyio
async def test_a_slow_key_action_does_not_block_the_keyboard(app: Host) -> None:
    app.order.post(*map(message_of, ("f2", "a", "b", "c")))
    while not app.notes or app.order._pending:
        await asyncio.sleep(0.005)
    app.release.set()
    await app.press("backspace", "d")
    assert app.text == "abd"


# ------------------------------------------------------------------------------------------------------- the app


def some_script(number: int) -> tuple[list[str], list[int]]:
    """Some keys and pastes, and the sizes of the chunks in which they arrive."""
    chance = random.Random(number)
    kinds: tuple[Callable[[], str], ...] = (
        lambda: chance.choice(TYPED),
        lambda: chance.choice(TYPED),
        lambda: chance.choice(OTHER),
        lambda: PASTE + "".join(chance.choices("xy\n日", k=chance.randint(1, 4))),
    )
    script = [chance.choice(kinds)() for _step in range(chance.randint(1, 10))]
    return script, [chance.randint(1, 6) for _chunk in range(chance.randint(0, 6))]


def editor_of(app: AgentApp) -> PromptEditor:
    return app.chat.query_one(PromptEditor)


async def typed(app: AgentApp, order: KeyOrder, script: Sequence[str], sizes: Sequence[int]) -> object:
    """Text and selection after keys that arrive in chunks; each chunk while the one before is processed."""
    buffer = editor_of(app).buffer
    buffer.reset()
    buffer.insert("cut")
    editor_of(app).buffer.cut(0)
    buffer.reset()
    left = list(script)
    for size in (*sizes, len(left)):
        chunk, left = left[:size], left[size:]
        order.post(*map(message_of, chunk))
        for _turn in range(size % 3):
            await asyncio.sleep(0)
        if size == 1:
            await settled(order)
    await settled(order)
    return buffer.text, buffer.cursor, buffer.anchor


def test_any_mix_of_keys_in_chunks_gives_the_text_and_the_cursor_of_slow_typing(tmp_path: Path) -> None:
    async def script(_pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        for number in points(100_000):
            steps, sizes = some_script(number)
            slowly = await typed(app, order, steps, [1] * len(steps))
            assert await typed(app, order, steps, sizes) == slowly, number

    Desk(tmp_path).play(script)


def test_letters_for_a_dialog_do_not_get_into_the_prompt(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        order.post(message_of("?"))
        await until(pilot, lambda: app.screen is not app.chat)
        order.post(*map(message_of, "abc"))
        await settled(order)
        assert app.chat.prompt.is_empty

    Desk(tmp_path).play(script)


def test_keys_after_the_one_that_searches_the_history_filter_the_list_and_send_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()
    newest = History.newest

    def read_slowly(history: History) -> list[Draft]:
        assert may_read.wait(60)
        return newest(history)

    monkeypatch.setattr(History, "newest", read_slowly)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for text in ("other", "some foobar"):
            app.chat.prompt.history.add(Draft(text))
        app.chat.prompt.insert("half a")
        order = KeyOrder(app, asyncio.get_running_loop())
        order.post(*Translation().messages(InputFilter(0.005).feed(b"\x12foobar\r", 0.0)))
        await settled(order)
        await until(pilot, lambda: app.screen.query_one(EntryLine).line.text == "foobar")
        assert "Reading…" in "\n".join(rows(app))
        assert app.chat.prompt.draft.text == "half a"
        may_read.set()
        await until(pilot, lambda: "some foobar" in "\n".join(rows(app)))
        assert "other" not in "\n".join(rows(app))
        assert not app.chat.session.busy
        order.post(*map(message_of, ("enter", "!")))
        await until(pilot, lambda: app.chat.prompt.draft.text == "some foobar!")
        assert not app.chat.session.busy

    Desk(tmp_path).play(script)


def test_escape_closes_an_open_menu_before_it_stops_the_work(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        await sends(pilot, app, "go")
        await until(pilot, lambda: "a beginning" in "\n".join(rows(app)))
        order.post(*map(message_of, "/he"), events.Key("escape", "\x1b"))
        await settled(order)
        assert app.chat.session.busy
        assert not app.chat.session.stopping
        order.post(events.Key("escape", "\x1b"))
        await until(pilot, lambda: not app.chat.session.busy)

    Desk(tmp_path, reply(say("a beginning"), fault("stall"))).play(script)


def test_an_escape_before_enter_never_stops_what_enter_sends(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        app.chat.prompt.insert("go")
        for key in (events.Key("escape", "\x1b"), events.Key("enter", "\r")):
            app.post_message(key)
        await until(pilot, lambda: "the whole answer" in "\n".join(rows(app)))
        assert "Interrupted" not in "\n".join(rows(app))

    Desk(tmp_path, reply("the whole answer")).play(script)


def test_a_keymap_moves_the_key_that_interrupts() -> None:
    assert list_interrupting_keys({}) == {"escape"}
    assert list_interrupting_keys({"screen.interrupt": "f4, ctrl+x"}) == {"f4", "ctrl+x"}
