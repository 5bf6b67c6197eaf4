"""Characters that skip the message queues are never typed in another order, nor where something else is meant."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip

from agentcli.tui.app import AgentApp
from agentcli.tui.keys import interrupting_keys
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.repaint.screen import ScreenMemory
from agentcli.tui.terminal.key_order import MOST_AT_ONCE, KeyOrder
from agentcli.tui.textual_internals import key_of, repaint
from tests.support.emulator import Emulator, QuickStream
from tests.support.examples import points
from tests.support.scripts import fault, reply, say
from tests.support.skipped_frames import draw_each_frame
from tests.tui.test_app import Desk, rows, sends, until

PASTE = "paste:"
TYPED = "ab ./!-日é\u0301👍🏽"
"""Without `@`: its menu opens when files were found, and then has the arrow keys."""
OTHER = (
    *("backspace", "delete", "left", "right", "home", "end", "up", "down", "shift+left", "shift+home", "f7"),
    *("ctrl+w", "ctrl+u", "ctrl+k", "ctrl+y", "ctrl+underscore", "alt+underscore", "shift+enter"),
)


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


def message_of(step: str) -> Message:
    if step.startswith(PASTE):
        return events.Paste(step.removeprefix(PASTE))
    return events.Key(key_of(step), step) if len(step) == 1 else events.Key(step, None)


async def settled(order: KeyOrder) -> None:
    done = asyncio.Event()
    order.settle(done.set)
    await asyncio.wait_for(done.wait(), 10)


def in_app(
    folder: Path, *acts: Callable[[AgentApp, KeyOrder, Pilot[int]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    """One app for all of them; each begins with an empty prompt."""

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for act in acts:
            await act(app, KeyOrder(app, asyncio.get_running_loop()), pilot)
            while app.screen is not app.chat:
                app.pop_screen()
            editor_of(app).reset()
            await pilot.pause()

    Desk(folder).play(script, size)


def editor_of(app: AgentApp) -> PromptEditor:
    return app.chat.query_one(PromptEditor)


def begin_again(editor: PromptEditor) -> None:
    editor.reset()
    editor.put_in("cut")
    editor.action_kill_line_start()
    editor.reset()


async def typed_slowly(app: AgentApp, order: KeyOrder, script: Sequence[str]) -> tuple[str, object]:
    """Through the queues, each key after the one before has been all the way."""
    begin_again(editor_of(app))
    for step in script:
        app.post_message(message_of(step))
        await settled(order)
    return editor_of(app).text, editor_of(app).selection


async def typed_in_chunks(app: AgentApp, order: KeyOrder, script: Sequence[str], sizes: Sequence[int]) -> object:
    begin_again(editor_of(app))
    left = list(script)
    for size in (*sizes, len(left)):
        chunk, left = left[:size], left[size:]
        order.post(*map(message_of, chunk))
        for _turn in range(size % 3):
            await asyncio.sleep(0)
    await settled(order)
    return editor_of(app).text, editor_of(app).selection


async def any_mix_of_keys_in_chunks_gives_the_text_and_the_cursor_of_slow_typing(
    app: AgentApp, order: KeyOrder, _pilot: Pilot[int]
) -> None:
    for number in points(100_000):
        script, sizes = some_script(number)
        expected = await typed_slowly(app, order, script)
        assert await typed_in_chunks(app, order, script, sizes) == expected, number


async def a_character_that_nothing_is_ahead_of_is_there_at_once_and_painted(
    app: AgentApp, order: KeyOrder, pilot: Pilot[int]
) -> None:
    order.post(*map(message_of, "a日b"))
    assert editor_of(app).text == "a日b"
    await pilot.pause()
    assert any("❯ a日b" in row for row in rows(app))


async def nothing_is_typed_before_what_is_still_in_a_queue(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
    for ahead in (PASTE + "x", "home", "ctrl+w"):
        editor_of(app).reset()
        await pilot.pause()
        order.post(message_of("a"), message_of(ahead), message_of("b"))
        assert editor_of(app).text == "a", ahead
        await settled(order)
        assert "b" in editor_of(app).text, ahead


async def a_question_mark_in_an_empty_prompt_opens_help_and_is_not_typed(
    app: AgentApp, order: KeyOrder, pilot: Pilot[int]
) -> None:
    order.post(message_of("?"))
    await until(pilot, lambda: app.screen is not app.chat)
    order.post(message_of("x"))
    await settled(order)
    assert app.chat.prompt.is_empty


async def letters_for_a_dialog_do_not_get_into_the_prompt(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
    app.chat.action_palette()
    await until(pilot, lambda: app.screen is not app.chat)
    order.post(*map(message_of, "abc"))
    await settled(order)
    assert app.chat.prompt.is_empty


async def more_keys_than_anybody_types_take_the_queues_and_stay_in_order(
    app: AgentApp, order: KeyOrder, _pilot: Pilot[int]
) -> None:
    text = "abcdefghij" * 10
    order.post(*map(message_of, text))
    assert editor_of(app).text == text[:MOST_AT_ONCE]
    await settled(order)
    assert editor_of(app).text == text


async def the_menu_follows_what_was_typed_directly(app: AgentApp, order: KeyOrder, pilot: Pilot[int]) -> None:
    order.post(*map(message_of, "/hel"), message_of("tab"))
    await settled(order)
    await pilot.pause()
    assert editor_of(app).text.startswith("/help")


def test_keys_that_skip_the_queues_stay_in_order_and_go_where_they_are_meant_for(tmp_path: Path) -> None:
    in_app(
        tmp_path,
        a_character_that_nothing_is_ahead_of_is_there_at_once_and_painted,
        nothing_is_typed_before_what_is_still_in_a_queue,
        a_question_mark_in_an_empty_prompt_opens_help_and_is_not_typed,
        letters_for_a_dialog_do_not_get_into_the_prompt,
        more_keys_than_anybody_types_take_the_queues_and_stay_in_order,
        the_menu_follows_what_was_typed_directly,
        any_mix_of_keys_in_chunks_gives_the_text_and_the_cursor_of_slow_typing,
    )


def test_escape_stops_the_work_in_the_turn_in_which_it_arrives(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        await sends(pilot, app, "go")
        await until(pilot, lambda: "a beginning" in "\n".join(rows(app)))
        order.post(message_of("x"), events.Key("escape", "\x1b"))
        assert app.chat.session.stopping
        assert editor_of(app).text == "x"
        await until(pilot, lambda: not app.chat.session.busy)

    Desk(tmp_path, reply(say("a beginning"), fault("stall"))).play(script)


def test_escape_closes_an_open_menu_before_it_stops_the_work(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        order = KeyOrder(app, asyncio.get_running_loop())
        await sends(pilot, app, "go")
        await until(pilot, lambda: "a beginning" in "\n".join(rows(app)))
        order.post(*map(message_of, "/he"))
        order.post(events.Key("escape", "\x1b"))
        await settled(order)
        assert not app.chat.session.stopping
        order.post(events.Key("escape", "\x1b"))
        assert app.chat.session.stopping
        await until(pilot, lambda: not app.chat.session.busy)

    Desk(tmp_path, reply(say("a beginning"), fault("stall"))).play(script)


def test_an_escape_before_enter_never_stops_what_enter_sends(tmp_path: Path) -> None:
    """Also not after a key got stuck on its way, when later keys do not wait for one another."""

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        app.chat.prompt.insert("go")
        for key in (events.Key("escape", "\x1b"), events.Key("enter", "\r")):
            app.post_message(key)
        await until(pilot, lambda: "the whole answer" in "\n".join(rows(app)))
        assert "Interrupted" not in "\n".join(rows(app))

    Desk(tmp_path, reply("the whole answer")).play(script)


class EchoingDriver:
    """What a driver does with cells, on an emulated terminal."""

    def __init__(self, app: AgentApp, monkeypatch: pytest.MonkeyPatch) -> None:
        self.echoes: list[tuple[str, bool]] = []
        """The text of the prompt when an echo was due, and whether there was one."""
        self._app, self._memory, self.terminal = app, ScreenMemory(), Emulator(*app.size)
        self._stream = QuickStream(self.terminal)
        draw_each_frame(monkeypatch)
        monkeypatch.setattr(app, "painting_driver", lambda: self)
        repaint(app)

    def paint(self, strips: list[tuple[int, int, Strip]], size: Size, cursor: tuple[int, int], **_rest: object) -> None:
        self._memory.resize(*size)
        self._memory.place(strips)
        self._stream.feed(self._memory.changes(cursor).encode())

    def echo(self, x: int, y: int, before: Strip, after: Strip) -> bool:
        data = self._memory.echo(x, y, before, after)
        self.echoes.append((editor_of(self._app).text, bool(data)))
        self._stream.feed(data.encode())
        return bool(data)

    def shown(self) -> tuple[str, tuple[int, int]]:
        """The row of the cursor, and its place."""
        cursor = self.terminal.cursor
        return self.terminal.display[cursor.y], (cursor.x, cursor.y)

    def paint_again(self) -> None:
        self._memory.forget()
        repaint(self._app)


def test_echoed_characters_are_on_the_terminal_at_once_keep_the_cursor_in_place_and_can_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def the_end_of_the_prompt_is_on_the_terminal_before_it_is_inserted(
        app: AgentApp, order: KeyOrder, _pilot: Pilot[int]
    ) -> None:
        driver = EchoingDriver(app, monkeypatch)
        for character in "abc":
            order.post(message_of(character))
        assert driver.echoes == [("", False), ("a", True), ("ab", True)]
        assert driver.shown()[0].startswith("❯ abc ")
        order.post(*map(message_of, "de"))
        assert len(driver.echoes) == 3, "what comes in one go is painted in one go"
        assert driver.shown()[0].startswith("❯ abcde ")

    async def joined_characters_leave_the_cursor_where_a_whole_frame_has_it(
        app: AgentApp, order: KeyOrder, pilot: Pilot[int]
    ) -> None:
        for text in ("👩\u200dab", "a\u200d b", "🇩üü", "🇩🇪ab"):
            editor_of(app).reset()
            await pilot.pause()
            driver = EchoingDriver(app, monkeypatch)
            for character in text:
                order.post(message_of(character))
                await settled(order)
                repaint(app)
                assert app.cursor_position == editor_of(app).cursor_screen_offset, text
            shown = driver.shown()
            driver.paint_again()
            assert shown == driver.shown(), text

    async def undo_takes_back_what_was_echoed(app: AgentApp, order: KeyOrder, _pilot: Pilot[int]) -> None:
        driver, editor = EchoingDriver(app, monkeypatch), editor_of(app)
        for character in "abc":
            order.post(message_of(character))
        editor.undo()
        driver.paint_again()
        assert (editor.text, editor.cursor_location) == ("", (0, 0))
        editor.redo()
        assert (editor.text, editor.cursor_location) == ("abc", (0, 3))

    in_app(
        tmp_path,
        the_end_of_the_prompt_is_on_the_terminal_before_it_is_inserted,
        joined_characters_leave_the_cursor_where_a_whole_frame_has_it,
        undo_takes_back_what_was_echoed,
    )


def test_an_echo_is_what_a_frame_shows_and_leaves_the_editor_as_slow_typing_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(app: AgentApp, order: KeyOrder, _pilot: Pilot[int]) -> None:
        driver, editor = EchoingDriver(app, monkeypatch), editor_of(app)
        for number in points(100_000)[::3]:
            steps, _sizes = some_script(number)
            # Where up and down go to depends on whether the rows are laid out by then.
            script = [*"some words "[: number % 12], *(step for step in steps if step not in ("up", "down"))]
            expected = await typed_slowly(app, order, script)
            begin_again(editor)
            for step in script:
                driver.echoes.clear()
                repaint(app)
                order.post(message_of(step))
                if driver.echoes and driver.echoes[0][1]:
                    shown = driver.shown()
                    assert shown[1] == app.cursor_position == editor.cursor_screen_offset
                    cursor = editor.wrapped_document.location_to_offset(editor.cursor_location)
                    assert cursor.x == editor.navigator.last_x_offset
                    driver.paint_again()
                    assert shown == driver.shown(), number
                await settled(order)
            assert (editor.text, editor.selection) == expected, number

    in_app(tmp_path, act, size=(20, 60))


def test_a_keymap_moves_the_key_that_interrupts() -> None:
    assert interrupting_keys({}) == {"escape"}
    assert interrupting_keys({"screen.interrupt": "f4, ctrl+x"}) == {"f4", "ctrl+x"}
